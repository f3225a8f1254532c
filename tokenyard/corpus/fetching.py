"""Which bytes of which files hold some positions of a corpus: what to fetch before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokenyard.corpus.shards import OpenShards
from tokenyard.formats.base import ShardReader, Span
from tokenyard.rows import Offsets


class Needed(NamedTuple):
    """A range of a file, and the positions start .. stop of the corpus that it is read for.

    ``kept``: whether every process reads it before anything else of its shard.
    """

    span: Span
    start: int
    stop: int
    kept: bool = False


class Grain(NamedTuple):
    """How a corpus comes: by ranges of its files, or by storage blocks, of which a shard has so many.

    ``mapped``: it is read from memory maps, so nothing of it is kept in memory of the process.
    """

    in_ranges: bool
    num_blocks: int
    mapped: bool = False


def grain_of(reader: ShardReader) -> Grain:
    """The grain of a shard, which is that of all shards of the corpus."""
    return Grain(reader.in_ranges, max(1, len(reader.block_rows) - 1), reader.mapped)


def needed_for(shards: OpenShards, start: int, stop: int, unit: str, fields: Sequence[str]) -> Iterator[Needed]:
    """What is read for positions start .. stop, counted in "rows" or in "tokens" of the stream.

    Neighbouring storage blocks that are ranges of a file are one range of it; blocks that are decoded come one by one.
    Opens the shards that the positions lie in. Raises DataError, StorageError.
    """
    begins = shards.row_starts if unit == "rows" else shards.token_starts
    first = int(np.searchsorted(begins, start, side="right")) - 1
    for shard in range(first, len(begins) - 1):
        base = int(begins[shard])
        if base >= stop:
            return
        low, high = max(start, base) - base, min(stop, int(begins[shard + 1])) - base
        if low < high:
            for span, a, b, kept in _of_shard(shards.reader(shard), low, high, unit, fields):
                yield Needed(span, base + a, base + b, kept)


def is_cut_every(shards: OpenShards, size: int, unit: str) -> bool:
    """Whether at each multiple of ``size`` positions a storage block begins, by the first shard and where others do."""
    begins = shards.row_starts if unit == "rows" else shards.token_starts
    block_starts = _block_starts(shards.reader(0), unit)
    inner = np.arange(0, block_starts[-1], size)
    return not (begins[:-1] % size).any() and bool(np.isin(inner, block_starts).all())


def _of_shard(reader: ShardReader, low: int, high: int, unit: str, fields: Sequence[str]) -> Iterator[Needed]:
    block_starts = _block_starts(reader, unit)
    first = int(np.searchsorted(block_starts, low, side="right")) - 1
    last = int(np.searchsorted(block_starts, high - 1, side="right")) - 1
    for span in reader.head_spans():
        yield Needed(span, 0, int(block_starts[-1]), kept=True)
    if reader.in_ranges:
        for span in reader.spans(first, last, fields):
            yield Needed(span, low, high)
        return
    for block in range(first, last + 1):
        if block_starts[block] < block_starts[block + 1]:
            for span in reader.spans(block, block, fields):
                yield Needed(span, *_bounds(block_starts, block))


def _block_starts(reader: ShardReader, unit: str) -> Offsets:
    return reader.block_rows if unit == "rows" else reader.index.offsets[reader.block_rows]


def _bounds(block_starts: Offsets, block: int) -> tuple[int, int]:
    return int(block_starts[block]), int(block_starts[block + 1])
