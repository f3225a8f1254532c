"""A digest of rows in any order: equal for two corpora that hold the same rows, each as often, however they are sorted.

Each row has a digest of its own, and the digest of all is their number and their sum. It tells what two sorted lists of
row digests would tell, without a list: it is kept in 40 bytes, and sums of parts add up to the sum of the whole. It
guards against accidents. Somebody who may choose many rows could find others with the same sum, so corpora from
strangers are compared in order, by `ty1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Self

import numpy as np
from blake3 import blake3

from tokenyard.converters.job import plan_rows
from tokenyard.converters.workers import Workers
from tokenyard.corpus import Corpus
from tokenyard.digest import canonical_items, digest_type, largest_id
from tokenyard.rows import Array, Column, Offsets, RowBatch

#: One piece of bytes for each row.
Pieces = Sequence[bytes | memoryview]

_LIMIT = 1 << 256
_RUN_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class RowSum:
    """Of some rows: how many they are, and the sum of their digests modulo 2^256."""

    num_rows: int = 0
    total: int = 0

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(num_rows=self.num_rows + other.num_rows, total=(self.total + other.total) % _LIMIT)

    def __str__(self) -> str:
        return f"rows1:{self.total:064x}"

    def counts(self, name: str) -> dict[str, int]:
        """As counts of a task, which are added up by name."""
        return {f"{name}:rows": self.num_rows, f"{name}:sum": self.total}

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], name: str) -> Self:
        """From counts that were added up."""
        return cls(num_rows=counts.get(f"{name}:rows", 0), total=counts.get(f"{name}:sum", 0) % _LIMIT)


def sum_of(batches: Iterable[RowBatch]) -> RowSum:
    """The sum of the rows of some batches."""
    found = RowSum()
    for batch in batches:
        total = sum(int.from_bytes(digest, "little") for digest in row_digests(batch))
        found += RowSum(num_rows=len(batch), total=total % _LIMIT)
    return found


def row_digests(batch: RowBatch) -> list[bytes]:
    """The digest of each row, 32 bytes: of its tokens, then of each field by name. See docs/specification.md.

    Raises DataError for ids outside 0 .. 2^32 - 1, of which two would be one.
    """
    largest_id(batch.tokens)  # raises
    head = b"tokenyard/row/1\0"
    parts = _token_parts(batch)
    for name in sorted(batch.fields):
        column = batch.fields[name]
        encoded = name.encode()
        head += len(encoded).to_bytes(8, "little") + encoded + digest_type(column.type).encode() + b"\0"
        parts += _field_parts(column)
    begun = blake3(head).digest()
    return [blake3(b"".join(pieces)).digest() for pieces in zip(repeat(begun), *parts)]


def sum_of_corpus(corpus: Corpus, workers: Workers) -> RowSum:
    """The sum of all rows of a corpus, read in parallel."""
    runs = list(plan_rows(corpus, _RUN_BYTES, np.dtype(corpus.schema.token_dtype).itemsize))
    return sum((found for _, found in workers.run(_sum_of_run, corpus, runs)), RowSum())


def _sum_of_run(corpus: Corpus, rows: range) -> RowSum:
    return sum_of(corpus.batches(rows.start, rows.stop))


def _token_parts(batch: RowBatch) -> list[Pieces]:
    """For each row its number of tokens, and these at 2 bytes where all ids of the row fit, else at 4."""
    wide = np.zeros(len(batch), np.bool_)
    if batch.num_tokens and batch.tokens.itemsize > 2:
        wide[np.searchsorted(batch.offsets, np.flatnonzero(batch.tokens >= 1 << 16), side="right") - 1] = True
    items = _items(batch.tokens.astype("<u2", copy=False), batch.offsets)
    if wide.any():
        in_four = _items(batch.tokens.astype("<u4", copy=False), batch.offsets)
        items = [in_four[i] if wide[i] else item for i, item in enumerate(items)]
    widths = [b"\4" if is_wide else b"\2" for is_wide in wide.tolist()]
    return [widths, _numbers(batch.lengths), items]


def _field_parts(column: Column) -> list[Pieces]:
    """For each row whether it has a value, the number of its items, and these; a null has neither."""
    offsets = np.arange(len(column) + 1) if column.offsets is None else column.offsets
    items = _items(canonical_items(column.values, column.type), offsets)
    lengths = _numbers(np.diff(offsets))
    if column.valid is None:
        return [[b"\1"] * len(column), lengths, items]
    valid = column.valid.tolist()
    return [
        [b"\1" if is_valid else b"\0" for is_valid in valid],
        [length if is_valid else b"" for is_valid, length in zip(valid, lengths, strict=True)],
        [item if is_valid else b"" for is_valid, item in zip(valid, items, strict=True)],
    ]


def _numbers(values: Offsets) -> Pieces:
    """Each number, u64le."""
    data = values.astype("<u8").tobytes()
    return [data[i : i + 8] for i in range(0, len(data), 8)]


def _items(values: Array, offsets: Offsets) -> Pieces:
    """The bytes of the items of each row."""
    data = np.ascontiguousarray(values).view(np.uint8).data
    return [data[a:b] for a, b in pairwise((offsets * values.itemsize).tolist())]
