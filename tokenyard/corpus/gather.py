"""Gathers: the items of many rows, or of many windows of the token stream, found and copied all at once.

The first time that a raw shard is touched, it is looked at row by row and entered in a table of addresses; from then
on a batch is found by arithmetic alone, whatever number of shards it comes from.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus.addresses import Addresses
from tokenyard.corpus.runs import Runs, split_at
from tokenyard.corpus.shards import MAX_OPEN_SHARDS, OpenShards
from tokenyard.errors import DataError
from tokenyard.formats.extents import Extents
from tokenyard.rows import Array, Offsets, offsets_of


class Gatherer:
    """Gathers from the shards of one corpus, in one process."""

    def __init__(self, shards: OpenShards) -> None:
        self._shards = shards
        self._row_starts, self._token_starts = shards.row_starts, shards.token_starts
        self._row_ends = self._row_starts[1:].astype(np.uint64)
        self._token_ends = self._token_starts[1:].astype(np.uint64)
        self._row_tables: dict[str, Addresses] = {}
        self._token_tables: dict[str, Addresses] = {}
        self._per_token: dict[tuple[int, str], bool] = {}
        self._lock = threading.Lock()

    def rows(self, rows: NDArray[np.int64], field: str) -> tuple[Array, Offsets]:
        """See ``Corpus.gather_rows``."""
        rows, dtype = _positions(rows), self._shards.dtype(field)
        # Seen as unsigned, a negative row is past the end.
        shards = np.searchsorted(self._row_ends, rows.view(np.uint64), side="right")
        table = self._row_tables.get(field)
        if table is not None and (taken := table.take(shards, rows, table.count)) is not None:
            return _in_dtype(taken.view(table.dtype), dtype), np.arange(len(rows) + 1) * table.count
        if len(rows) and (rows.min() < 0 or rows.max() >= self._row_starts[-1]):
            raise IndexError(
                f"rows {rows.min()} .. {rows.max()} are not all within the {self._row_starts[-1]} rows of "
                f"{self._shards.where}"
            )
        local = rows - self._row_starts[shards]
        runs = Runs()
        for shard in np.unique(shards).tolist():
            at = np.flatnonzero(shards == shard)
            self._add_rows(runs, shard, at, local[at], field)
            self._enter(shard, field)
        flat, lengths = runs.copy(dtype)
        return flat, offsets_of(lengths)

    def windows(self, starts: NDArray[np.int64], length: int, field: str) -> Array:
        """See ``Corpus.gather_windows``."""
        starts, dtype = _positions(starts), self._shards.dtype(field)
        if length < 0:
            raise ValueError(f"windows of {length} tokens")
        shards = np.searchsorted(self._token_ends, starts.view(np.uint64), side="right")
        table = self._token_tables.get(field)
        if table is not None and self._inside(shards, starts, length):
            taken = table.take(shards, starts, length)
            if taken is not None:
                return _in_dtype(taken.view(table.dtype), dtype).reshape(len(starts), length)
        if len(starts) and (starts.min() < 0 or int(starts.max()) + length > self._token_starts[-1]):
            raise IndexError(
                f"windows of {length} tokens from {starts.min()} .. {starts.max()} are not all within the "
                f"{self._token_starts[-1]} tokens of {self._shards.where}"
            )
        if not len(starts) or not length:
            return np.empty((len(starts), length), dtype)
        runs = Runs()
        window, shards, low, high = split_at(self._token_starts, starts, starts + length)
        places = window * length + (low - starts[window])
        regular = self._regular_table(field, shards)
        if regular is None:
            for shard in np.unique(shards).tolist():
                at = np.flatnonzero(shards == shard)
                begin = self._token_starts[shard]
                self._add_windows(runs, shard, places[at], low[at] - begin, high[at] - begin, field)
                self._enter(shard, field)
        else:
            self._add_regular(runs, regular, places, shards, low, high)
        return runs.copy(dtype)[0].reshape(len(starts), length)

    def _inside(self, shards: Offsets, starts: Offsets, length: int) -> bool:
        """Whether every window lies in one shard."""
        if not len(shards) or int(shards.max()) >= len(self._token_ends):
            return False
        return bool((starts + length <= self._token_starts[shards + 1]).all())

    def _regular_table(self, field: str, shards: Offsets) -> Addresses | None:
        """The table of rows that windows over ``shards`` can be cut from; None where rows are not all of one length."""
        table, of_tokens = self._row_tables.get(field), self._row_tables.get("tokens")
        if table is None or not table.count or not table.has(shards):
            return None
        # A position in the token stream finds a field's item only where its rows are as long as the tokens'.
        aligned = of_tokens is not None and of_tokens.count == table.count and of_tokens.has(shards)
        return table if field == "tokens" or aligned else None

    def _add_regular(
        self, runs: Runs, table: Addresses, places: Offsets, shards: Offsets, low: Offsets, high: Offsets
    ) -> None:
        """Windows over rows of one length, cut where rows end by arithmetic alone."""
        origin = table.origin[shards]
        items = table.count
        begin = self._token_starts[shards]
        low, high = low - begin, high - begin
        first = low // items
        counts = (high - 1) // items - first + 1
        part = np.repeat(np.arange(len(low)), counts)
        row = first[part] + np.arange(len(part)) - np.repeat(np.cumsum(counts) - counts, counts)
        part_low = np.maximum(low[part], row * items)
        part_high = np.minimum(high[part], (row + 1) * items)
        rows = row + self._row_starts[shards[part]]
        inside = (part_low - row * items) * table.dtype.itemsize
        addresses = table.low + origin[part] + rows * table.stride + inside
        runs.add(places[part] + part_low - low[part], addresses, part_high - part_low, table.dtype, table)

    def _add_rows(self, runs: Runs, shard: int, places: Offsets, local: Offsets, field: str) -> None:
        block_rows = self._shards.reader(shard).block_rows
        blocks = np.searchsorted(block_rows, local, side="right") - 1
        for block in np.unique(blocks).tolist():
            extents = self._shards.extents(shard, block, field)
            some = blocks == block
            row = local[some] - block_rows[block]
            runs.add(places[some], extents.address + extents.starts[row], extents.lengths[row], extents.dtype, extents)

    def _add_windows(self, runs: Runs, shard: int, places: Offsets, low: Offsets, high: Offsets, field: str) -> None:
        """Windows inside one shard, cut where storage blocks end and, unless the block is flat, where rows end."""
        reader = self._shards.reader(shard)
        offsets = reader.index.offsets
        origin, blocks, low, high = split_at(offsets[reader.block_rows], low_in := low, high)
        places = places[origin] + low - low_in[origin]
        for block in np.unique(blocks).tolist():
            extents = self._shards.extents(shard, block, field)
            some = blocks == block
            first = int(reader.block_rows[block])
            block_offsets = offsets[first : int(reader.block_rows[block + 1]) + 1]
            if field != "tokens" and not np.array_equal(extents.lengths, np.diff(block_offsets)):
                raise DataError(
                    f"{reader.where}: rows of field {field!r} are not as long as their tokens; it has no windows"
                )
            at, a, b, size = places[some], low[some], high[some], extents.dtype.itemsize
            if extents.is_flat:
                addresses = extents.address + int(extents.starts[0]) + (a - block_offsets[0]) * size
            else:
                window, row, part, b = split_at(block_offsets, a, b)
                at, a = at[window] + part - a[window], part
                addresses = extents.address + extents.starts[row] + (a - block_offsets[row]) * size
            runs.add(at, addresses, b - a, extents.dtype, extents)

    def _enter(self, shard: int, field: str) -> None:
        """Put a raw shard into the tables of addresses, so that the next batch finds its rows without a loop."""
        if len(self._shards.reader(shard).block_rows) != 2:
            return
        extents = self._shards.extents(shard, 0, field)
        if not extents.mapped or not len(extents.starts):
            return
        with self._lock:
            if extents.is_flat and (field == "tokens" or self._is_per_token(shard, field, extents)):
                size = extents.dtype.itemsize
                first = int(self._token_starts[shard])
                self._enter_in(self._token_tables, field, shard, first, extents, (size, 1))
            if extents.regular_shape and extents.regular_shape[1]:
                first = int(self._row_starts[shard])
                self._enter_in(self._row_tables, field, shard, first, extents, extents.regular_shape)

    def _enter_in(
        self,
        tables: dict[str, Addresses],
        field: str,
        shard: int,
        first: int,
        extents: Extents,
        shape: tuple[int, int],
    ) -> None:
        table = tables.get(field)
        # A shard of a single row has no distance; one with more rows takes its table over.
        if table is None or len(table.owners) >= MAX_OPEN_SHARDS or (table.stride == 0 and shape[0]):
            table = Addresses.empty(len(self._row_ends), *shape, extents.dtype)
        one_row = len(extents.starts) == 1 and shape[1] == table.count
        fits = extents.dtype == table.dtype and (one_row or shape == (table.stride, table.count))
        if fits and not table.has(np.array([shard])):
            tables[field] = table.with_shard(shard, first, extents)

    def _is_per_token(self, shard: int, field: str, extents: Extents) -> bool:
        key = (shard, field)
        if key not in self._per_token:
            row_lengths = np.diff(self._shards.reader(shard).index.offsets)
            self._per_token[key] = bool(np.array_equal(extents.lengths, row_lengths))
        return self._per_token[key]


def _in_dtype(items: Array, dtype: np.dtype[Any]) -> Array:
    return items if items.dtype == dtype else items.astype(dtype)


def _positions(values: Any) -> NDArray[np.int64]:
    """``values`` as int64[n]. Raises IndexError for anything but whole numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise IndexError(f"positions are a flat array of whole numbers, not {array.ndim}-dimensional {array.dtype}")
    return array if array.dtype == np.int64 else array.astype(np.int64)
