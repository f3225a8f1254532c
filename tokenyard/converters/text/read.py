"""Reading a split."""

from collections.abc import Iterator

from tokenyard.converters.text.document import BadRecord, Document
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.sources import SOURCES
from tokenyard.converters.text.split import Split


def read_split(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    """Yield the split's documents, and its bad records in their places, in the order of the file.

    What one record has wrong is a BadRecord, for the caller's policy. What makes the rest of the file unreadable
    (a cut stream, a missing column, broken quotes) is a DataError, under any policy.
    """
    return SOURCES[split.kind].read(split, options)
