"""A split: the part of the input that one task reads, small enough to send to any process."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tokenyard.converters.text.document import BadRecord, Document
from tokenyard.converters.text.options import Kind, TextOptions

Compression = Literal["none", "gzip", "zstd", "bz2", "xz"]


@dataclass(frozen=True, kw_only=True)
class Split:
    """A half-open range of one file.

    start, stop: bytes for lines (both at the start of a line, or the end), row groups for Parquet, shards for
    MDS, and 0 to file_bytes for what is read whole.
    num_bytes: about how much there is to read, for sharing work out.
    file_bytes: the size of `path` when the plan was made; another size at reading is an error.
    etag: of an object, what tells it from another one in its place; reading another is an error.
    """

    path: str
    kind: Kind
    compression: Compression
    start: int
    stop: int
    num_bytes: int
    file_bytes: int
    etag: str | None = None


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """An input file whose kind and compression are known."""

    path: str
    kind: Kind
    compression: Compression
    num_bytes: int
    etag: str | None = None

    def whole(self) -> Split:
        """Return the split that is all of this file."""
        return self.part(0, self.num_bytes, self.num_bytes)

    def part(self, start: int, stop: int, num_bytes: int) -> Split:
        """Return a split of this file; the units of `start` and `stop` are those of its kind."""
        return Split(
            path=self.path,
            kind=self.kind,
            compression=self.compression,
            start=start,
            stop=stop,
            num_bytes=num_bytes,
            file_bytes=self.num_bytes,
            etag=self.etag,
        )


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """A kind of text source: how a file is planned into splits, and how a split is read in order."""

    plan: Callable[[SourceFile, TextOptions], Iterable[Split]]
    read: Callable[[Split, TextOptions], Iterator[Document | BadRecord]]


def group_sizes(sizes: Iterable[int], limit: int) -> Iterator[tuple[int, int, int]]:
    """Join neighbours while their sum stays within `limit`: yields (first, past the last, sum).

    An item above the limit stands alone. Depends on nothing but the sizes.
    """
    first, total, index = 0, 0, -1
    for index, size in enumerate(sizes):
        if index > first and total + size > limit:
            yield first, index, total
            first, total = index, 0
        total += size
    if index >= first:
        yield first, index + 1, total


def group_splits(splits: tuple[Split, ...], group_bytes: int) -> tuple[tuple[Split, ...], ...]:
    """Join neighbouring splits, many small files say, into groups of about `group_bytes`, in order."""
    groups = group_sizes((split.num_bytes for split in splits), group_bytes)
    return tuple(splits[first:stop] for first, stop, _ in groups)
