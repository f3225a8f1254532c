"""From a corpus to batches: which samples, in which order, for which rank."""
