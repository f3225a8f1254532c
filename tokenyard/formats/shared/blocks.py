"""How a shard's rows are cut into storage blocks, and a small memory for those that are being walked through.

Formats that decode (Parquet, JSONL, CSV) keep rows in blocks of a bounded size, so that one row costs no more than one
block, and conversion, which takes a block in several pieces, decodes it once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from tokenyard.rows import Offsets, RowBatch, offsets_of

#: Rows in a storage block: as many as an order block and a digest block hold by default.
BLOCK_ROWS = 1024
#: Bytes of a raw shard that are read at once. More: fewer calls. Less: less is read that an order block doesn't need,
#: since these begin at any row.
RANGE_BYTES = 1 << 20
#: Rows and tokens that are encoded at once.
PIECE_ROWS, PIECE_TOKENS = 4096, 1 << 20
_MAX_KEPT = 8

Value = TypeVar("Value")


def row_bytes(batch: RowBatch) -> Offsets:
    """int64[k]: the bytes of each row, tokens and fields together."""
    sizes = batch.lengths * batch.tokens.itemsize
    for column in batch.fields.values():
        items = 1 if column.offsets is None else np.diff(column.offsets)
        sizes = sizes + items * column.values.itemsize
    return sizes


def cut_blocks(sizes: Offsets, max_rows: int, max_bytes: int) -> Offsets:
    """int64[blocks + 1]: where blocks begin, of at most ``max_rows`` rows and ``max_bytes``, and one row at least.

    Every ``max_rows`` rows a block begins. Rows between that are too large for one are shared out among as few as can
    be, of about the same size.
    """
    # What is larger than a block is alone in one, however large; the sum of damaged sizes could go past 64 bits.
    ends = offsets_of(np.minimum(sizes, max_bytes + 1))
    starts = [0]
    while starts[-1] < len(sizes):
        start = starts[-1]
        run_end = min((start // max_rows + 1) * max_rows, len(sizes))
        left = int(ends[run_end] - ends[start])
        even = left / -(-left // max_bytes) if left else 0
        fitting = int(np.searchsorted(ends, ends[start] + even, side="right")) - 1
        starts.append(min(max(fitting, start + 1), run_end))
    return np.array(starts, np.int64)


def cut_ranges(starts: Offsets, range_bytes: int | None = None) -> Offsets:
    """int64[blocks + 1]: where the blocks of a raw shard begin that is read by ranges.

    ``starts``: int64[rows], the byte of the file at which each row begins. ``range_bytes``: the most that is read at
    once; ``RANGE_BYTES`` when not given.
    """
    sizes = np.maximum(np.diff(starts, append=starts[-1:]), 0)
    return cut_blocks(sizes, BLOCK_ROWS, range_bytes or RANGE_BYTES)


def cut_batches(batches: Iterable[RowBatch]) -> Iterator[RowBatch]:
    """The same rows in batches of at most ``PIECE_ROWS`` rows and ``PIECE_TOKENS`` tokens, and one row at least.

    What an encoder makes of such a piece is still in the processor's cache when it is hashed and written.
    """
    for batch in batches:
        start = 0
        while start < len(batch):
            fitting = int(np.searchsorted(batch.offsets, batch.offsets[start] + PIECE_TOKENS, side="right")) - 1
            stop = min(max(fitting, start + 1), start + PIECE_ROWS, len(batch))
            yield batch.slice(start, stop)
            start = stop


class Recent(Generic[Value]):
    """Values put aside to be taken up again, the last few of a process; whoever takes one has it alone.

    A value belongs to an owner (the reader of a shard), to which it must not refer: it goes when the owner goes, so
    that a corpus nobody holds any more keeps no memory and no open file. ``close`` is called with values that leave
    before that.
    """

    def __init__(self, close: Callable[[Value], None] | None = None) -> None:
        self._close = close
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[Any, dict[Hashable, Value]] = weakref.WeakKeyDictionary()
        # From the one put aside the longest ago; those of owners that are gone stay until their turn comes.
        self._order: OrderedDict[tuple[weakref.ref[Any], Hashable], None] = OrderedDict()

    def take(self, owner: Any, key: Hashable) -> Value | None:
        """The owner's value put aside under ``key``, which is then no longer there."""
        self._check_process()
        with self._lock:
            self._order.pop((weakref.ref(owner), key), None)
            return self._kept.get(owner, {}).pop(key, None)

    def put(self, owner: Any, key: Hashable, value: Value) -> None:
        """Put a value aside; the one put aside the longest ago may go."""
        self._check_process()
        leaving = []
        with self._lock:
            values = self._kept.setdefault(owner, {})
            leaving.append(values.pop(key, None))
            values[key] = value
            place = (weakref.ref(owner), key)
            self._order[place] = None
            self._order.move_to_end(place)
            if len(self._order) > _MAX_KEPT:
                (reference, other), _ = self._order.popitem(last=False)
                if (its_owner := reference()) is not None:
                    leaving.append(self._kept.get(its_owner, {}).pop(other, None))
        for old in leaving:
            if old is not None and self._close:
                self._close(old)

    def _check_process(self) -> None:
        """After a fork, begin anew: another thread may have held the parent's lock."""
        if self._pid != os.getpid():
            self._reset()
