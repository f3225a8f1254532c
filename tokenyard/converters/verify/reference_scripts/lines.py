"""The lines of text files, plain or compressed."""

import gzip
import io
from contextlib import contextmanager


@contextmanager
def opened(path, newline=None):
    """A file of UTF-8 text to be read line by line."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig", newline=newline) as file:
            yield file
    elif path.suffix == ".zst":
        import zstandard

        with open(path, "rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as data:
            yield io.TextIOWrapper(data, encoding="utf-8-sig", newline=newline)
    else:
        with open(path, encoding="utf-8-sig", newline=newline) as file:
            yield file
