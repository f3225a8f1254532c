"""Where the rows of storage blocks lie in memory, in arrays that compiled loops read.

A table covers blocks that follow one another: all shards of a corpus, or the few decoded blocks that one batch needs.
Positions are tokens of the stream, or rows. What is entered was checked by `OpenShards`, and stays as long as it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tokenyard.corpus.records import (
    BUFFER,
    FLAT,
    ITEMS,
    KIND,
    NUM_COLUMNS,
    OFFSETS,
    ROWS,
    SIGNED,
    STARTS,
    STRIDE,
    SWAPPED,
)
from tokenyard.formats.extents import Extents
from tokenyard.rows import Array, Offsets, offsets_of

#: Of a block that is not in its table.
ABSENT = -1
#: Bytes of row indexes that a table keeps alive.
_MAX_INDEX_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A block as compiled loops know it.

    Attributes:
        record: int64[NUM_COLUMNS].
        dtype: of the items.
        owners: what it has addresses of.
        index_bytes: what its row index costs in memory of this process, maps of files not counted.
    """

    record: Offsets
    dtype: np.dtype[Any]
    owners: tuple[Array, ...]
    index_bytes: int

    @classmethod
    def of(cls, extents: Extents, offsets: Offsets) -> Self:
        """Note where a block lies.

        Args:
            extents: where its rows lie; items are whole numbers, or are copied as they are.
            offsets: int64[rows + 1], tokens before each row, counted from any number on.
        """
        starts, lengths = np.ascontiguousarray(extents.starts, np.int64), extents.lengths
        if not np.array_equal(lengths, np.diff(offsets)):
            offsets = offsets_of(lengths)  # of a field with lengths of its own
        offsets = np.ascontiguousarray(offsets, np.int64)
        is_flat, shape = extents.is_flat, _regular_shape(starts, lengths)
        record = np.zeros(NUM_COLUMNS, np.int64)
        owners: list[Array] = [extents.buffer]
        if is_flat or shape is not None:
            starts = starts[:1].copy()  # the rest is arithmetic, and the array may be large
        owners.append(starts)
        if shape is None:
            owners.append(offsets)
            record[OFFSETS] = _address(offsets)
        else:
            record[STRIDE], record[ITEMS] = shape
        record[BUFFER] = extents.address
        record[STARTS] = _address(starts)
        record[ROWS] = len(extents.starts)
        record[FLAT] = is_flat
        record[KIND] = _kind_of(extents.dtype)
        index_bytes = sum(array.nbytes for array in owners[1:] if _is_own(array))
        return cls(record=record, dtype=extents.dtype, owners=tuple(owners), index_bytes=index_bytes)


class BlockTable:
    """Blocks by the positions at which they begin.

    One thread at a time may enter blocks while others gather: a block's record is complete before its slot names it.

    Args:
        begins: int64[blocks + 1], the first position of each block, and the end; increasing.
        capacity: blocks that may be entered.
        dtype: of the items, as they are asked for.

    Attributes:
        as_stored: whether all items entered are stored in that dtype.
        arrays: what compiled loops take of it: `begins`, int64[blocks] slots, int64[records, columns].
    """

    def __init__(self, begins: Offsets, capacity: int, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._slots = np.full(max(1, len(begins) - 1), ABSENT, np.int64)
        self._records = np.zeros((max(1, capacity), NUM_COLUMNS), np.int64)
        self._index_bytes = 0
        self._entries: list[Entry] = []
        self._barrier = threading.Lock()
        self.as_stored = True
        self.arrays = begins, self._slots, self._records

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int, Entry]], dtype: np.dtype[Any]) -> Self:
        """The table of blocks that may lie apart; positions between them, and past them, are in none.

        Args:
            entries: the first position of each block, its end, and the block; increasing, and none empty.
            dtype: of the items, as they are asked for.
        """
        begins, numbers, blocks = [0], [], []
        for first, end, entry in entries:
            if first > begins[-1]:
                begins.append(first)
            numbers.append(len(begins) - 1)
            blocks.append(entry)
            begins.append(end)
        table = cls(np.array(begins, np.int64), len(blocks), dtype)
        if blocks:
            table._records[:] = [entry.record for entry in blocks]
            table._slots[numbers] = np.arange(len(blocks))
            table._entries = blocks
            table.as_stored = all(entry.dtype == dtype for entry in blocks)
        return table

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another block."""
        return len(self._entries) == len(self._records) or self._index_bytes > _MAX_INDEX_BYTES

    def enter(self, block: int, entry: Entry) -> None:
        """Enter a block by its number; one that is there stays as it is."""
        if self._slots[block] != ABSENT:
            return
        if entry.dtype != self._dtype:
            self.as_stored = False
        slot = len(self._entries)
        self._records[slot] = entry.record
        self._entries.append(entry)
        self._index_bytes += entry.index_bytes
        with self._barrier:  # processors that reorder writes must not show the slot before the record
            pass
        self._slots[block] = slot

    def has(self, block: int) -> bool:
        """Whether a block is entered."""
        return bool(self._slots[block] != ABSENT)


def _regular_shape(starts: Offsets, lengths: Offsets) -> tuple[int, int] | None:
    """Distance in bytes (0 for a single row) and items of rows, where these are the same for all, and not 0."""
    if not len(starts) or not lengths[0] or (lengths != lengths[0]).any():
        return None
    stride = int(starts[1] - starts[0]) if len(starts) > 1 else 0
    return (stride, int(lengths[0])) if (np.diff(starts) == stride).all() else None


def _is_own(array: Array) -> bool:
    """Whether the memory of an array is this process's, and no map's."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return isinstance(base, np.ndarray | bytes)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _kind_of(dtype: np.dtype[Any]) -> int:
    """The kind of stored items."""
    swapped = dtype.itemsize > 1 and not dtype.isnative
    return int(dtype.itemsize) + SIGNED * (dtype.kind == "i") + SWAPPED * swapped
