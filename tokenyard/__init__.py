"""tokenyard: keep tokens in any storage format, and train from any of them with the same batches."""
