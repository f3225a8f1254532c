"""Counting what rows hold: ids, padding, documents. Of all rows, of some shards, or of a seeded sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.looking.lengths import LengthCounts
from tokenyard.looking.rows import lengths_field
from tokenyard.rows import RowBatch

Int64Array = NDArray[np.int64]

#: Ids from here on are counted together: no vocabulary is as large, and hostile ones may not cost memory.
MOST_IDS = 1 << 22
#: Stretches of rows that a sample is made of.
STRETCHES = 32
#: How full rows are is told in steps of 5 percent.
_FILL_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Fill:
    """How full packed rows are.

    Attributes:
        padding: tokens that are padding, at the end of rows.
        full_rows: rows without padding.
        steps: int64[21], rows that are 0 .. 5 percent full, and so on; the last: those that are full.
        documents: lengths of their documents; what a row has past the last is none.
    """

    padding: int
    full_rows: int
    steps: Int64Array
    documents: LengthCounts


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What some rows hold.

    Attributes:
        num_rows, num_tokens: how many were read.
        ids: int64[k], how often each id from 0 on occurs.
        beyond: how many ids are larger than those.
        fill: of packed rows that carry the lengths of their documents; else None.
    """

    num_rows: int
    num_tokens: int
    ids: Int64Array
    beyond: int
    fill: Fill | None

    def of(self, number: int) -> int:
        """How often an id occurs."""
        return int(self.ids[number]) if 0 <= number < len(self.ids) else 0

    def share(self, number: int) -> float:
        """The share of all tokens that have an id, from 0 to 1."""
        return self.of(number) / max(1, self.num_tokens)

    def most_frequent(self, at_most: int) -> list[int]:
        """The most frequent ids, the most frequent first; of equals the smaller."""
        order = np.argsort(-self.ids, kind="stable")[:at_most]
        return [int(number) for number in order if self.ids[number]]


def count(corpus: Corpus, batches: Iterable[RowBatch]) -> Counts:
    """Count what batches of a corpus's rows hold."""
    rows = tokens = beyond = padding = full_rows = 0
    ids = np.zeros(0, np.int64)
    steps, documents = np.zeros(_FILL_STEPS + 1, np.int64), LengthCounts()
    field = lengths_field(corpus)
    for batch in batches:
        rows, tokens = rows + len(batch), tokens + batch.num_tokens
        within = batch.tokens[(batch.tokens >= 0) & (batch.tokens < MOST_IDS)]
        beyond += batch.num_tokens - len(within)
        found = np.bincount(within.astype(np.int64, copy=False), minlength=len(ids))
        found[: len(ids)] += ids
        ids = found
        if field is not None:
            told = batch.fields[field]
            documents.add(told.values.astype(np.int64))
            unused = _unused(batch, field)
            if corpus.layout.pad_token_id is not None:
                padding += int(unused.sum())
            full_rows += int((unused == 0).sum())
            used = np.floor(_FILL_STEPS * (1 - unused / np.maximum(1, batch.lengths))).astype(np.int64)
            steps += np.bincount(used, minlength=_FILL_STEPS + 1)
    fill = None if field is None else Fill(padding=padding, full_rows=full_rows, steps=steps, documents=documents)
    return Counts(num_rows=rows, num_tokens=tokens, ids=ids, beyond=beyond, fill=fill)


def of_shards(corpus: Corpus, shards: Iterable[int]) -> Iterator[RowBatch]:
    """All rows of some shards."""
    starts = corpus.shard_row_starts
    for shard in shards:
        yield from corpus.batches(int(starts[shard]), int(starts[shard + 1]))


def sample(corpus: Corpus, max_tokens: int, seed: int) -> Iterator[RowBatch]:
    """Rows of about ``max_tokens`` tokens, never more: all, or stretches that begin at random rows, evenly spread.

    The same for the same corpus, ``max_tokens`` and seed, whatever its format.
    """
    if corpus.num_tokens <= max_tokens:
        yield from corpus.batches()
        return
    rng = np.random.Generator(np.random.Philox(seed))
    pieces = min(STRETCHES, len(corpus))
    edges = [len(corpus) * k // pieces for k in range(pieces + 1)]
    left = max_tokens
    for k, (low, high) in enumerate(pairwise(edges)):
        room = left // (pieces - k)
        needed = room * len(corpus) // corpus.num_tokens
        start = int(rng.integers(low, max(low + 1, high - needed)))
        taken = _fitting(corpus, start, high, room)
        for batch in corpus.batches(start, start + taken):
            left -= batch.num_tokens
            yield batch


def _fitting(corpus: Corpus, start: int, stop: int, room: int) -> int:
    """How many rows from ``start`` on have ``room`` tokens together, by the indexes of as few shards as can be."""
    row = start
    while row < stop:
        shard_end = int(corpus.shard_row_starts[np.searchsorted(corpus.shard_row_starts, row, side="right")])
        end = min(stop, shard_end)
        ends = np.cumsum(corpus.row_lengths(row, end))
        fitting = int(np.searchsorted(ends, room, side="right"))
        row += fitting
        if row < end:
            break
        room -= int(ends[-1])
    return row - start


def _unused(batch: RowBatch, field: str) -> Int64Array:
    """int64[rows]: the tokens of each row that none of its documents has."""
    told = batch.fields[field]
    assert told.offsets is not None  # it is a list
    until = np.concatenate([[0], np.cumsum(told.values, dtype=np.int64)])
    used = until[told.offsets[1:]] - until[told.offsets[:-1]]
    found: Int64Array = batch.lengths - np.clip(used, 0, batch.lengths)
    return found
