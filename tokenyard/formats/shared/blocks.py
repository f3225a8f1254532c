"""How a shard's rows are cut into storage blocks, and a small memory for those that are being walked through.

Formats that decode (Parquet, JSONL, CSV) keep rows in blocks of a bounded size, so that one row costs no more than one
block, and conversion, which takes a block in several pieces, decodes it once.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from tokenyard.rows import Offsets, RowBatch, offsets_of

#: Rows in a storage block: as many as an order block and a digest block hold by default.
BLOCK_ROWS = 1024
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
    """int64[blocks + 1]: where blocks begin, of at most ``max_rows`` rows and ``max_bytes``, and one row at least."""
    ends = offsets_of(sizes)
    starts = [0]
    while starts[-1] < len(sizes):
        start = starts[-1]
        fitting = int(np.searchsorted(ends, ends[start] + max_bytes, side="right")) - 1
        starts.append(min(max(fitting, start + 1), start + max_rows, len(sizes)))
    return np.array(starts, np.int64)


class Recent(Generic[Value]):
    """Values put aside to be taken up again, the last few of a process; whoever takes one has it alone."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()

    def take(self, key: Hashable) -> Value | None:
        """The value put aside under ``key``, which is then no longer there."""
        if self._pid != os.getpid():  # after a fork: another thread may have held the parent's lock
            self._reset()
        with self._lock:
            return self._kept.pop(key, None)

    def put(self, key: Hashable, value: Value) -> None:
        """Put a value aside; the one put aside the longest ago may go."""
        if self._pid != os.getpid():
            self._reset()
        with self._lock:
            self._kept[key] = value
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
