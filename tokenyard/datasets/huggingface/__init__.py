"""What Hugging Face's models and their Trainer need to know of a loader, and the other way round."""

from tokenyard.datasets.huggingface.inputs import check_labels, inputs_for

__all__ = ["check_labels", "inputs_for"]
