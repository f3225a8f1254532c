"""The tables by which gathers find the blocks they need, made as these are touched.

Shards that are mapped are entered in one table for all, and stay. Decoded blocks come and go with the cache that keeps
them: a table has those used last, and is made anew when a batch needs another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus.block_table import BlockTable, Entry
from tokenyard.corpus.records import OUTSIDE
from tokenyard.corpus.shards import MAX_OPEN_SHARDS, OpenShards
from tokenyard.errors import DataError
from tokenyard.formats.extents import Extents
from tokenyard.rows import Offsets, offsets_of
from tokenyard.stages import stage

#: Decoded blocks in a table: some times as many as a shuffle draws from at once.
_MAX_RECENT = 512

Int64Array = NDArray[np.int64]
#: Runs a compiled loop over a table, and returns what it returned.
Loop = Callable[[BlockTable], int]
#: The first position of a block, its end, and the block.
_Block = tuple[int, int, Entry]


@dataclass(frozen=True, kw_only=True)
class _Recent:
    """Decoded blocks by shard and number, from the one that came first, and their table."""

    blocks: dict[tuple[int, int], _Block]
    table: BlockTable


class Tables:
    """The tables of blocks of each field, with positions counted in rows or in tokens of the stream.

    Args:
        shards: whose blocks they are.
        begins: int64[shards + 1], the first position of each shard, and the end.
        unit: what is counted, "rows" or "tokens".
    """

    def __init__(self, shards: OpenShards, begins: Offsets, unit: str) -> None:
        self._shards = shards
        self._begins = begins
        self._unit = unit
        self._raw: dict[str, BlockTable] = {}
        self._recent: dict[str, _Recent] = {}
        self._lock = threading.Lock()

    def run(self, field: str, positions: Int64Array, length: int, loop: Loop) -> tuple[BlockTable, int]:
        """Run a loop over a table that has all blocks of ``positions`` and the ``length - 1`` after each.

        Returns the table, and what the loop returned: DONE, OTHER or NO_LINE. Raises IndexError for positions outside.
        """
        with stage("read"):
            return self._run(field, positions, length, loop)

    def _run(self, field: str, positions: Int64Array, length: int, loop: Loop) -> tuple[BlockTable, int]:
        if (recent := self._recent.get(field)) is not None:
            # Past its last block a table of some blocks knows nothing.
            if (found := loop(recent.table)) < 0 and found != OUTSIDE:
                return recent.table, found
            return self._run_over_some(field, positions, length, loop)
        full = None
        # A batch of more shards than a new table has room for gets one of its own.
        for _ in range(2):
            table = self._table_in_place_of(full, field)
            while (found := loop(table)) >= 0 and not table.is_full:
                if not self._enter_all(table, found, positions, field):
                    return self._run_over_some(field, positions, length, loop)
            if found == OUTSIDE:
                raise self._outside(positions, length)
            if found < 0:
                return table, found
            full = table
            if len(self._shards_of(positions)) >= MAX_OPEN_SHARDS:
                break
        return self._run_over_some(field, positions, length, loop, kept=False)

    def _table_in_place_of(self, full: BlockTable | None, field: str) -> BlockTable:
        """The table of raw shards, begun anew where it is the one that is full."""
        table = self._raw.get(field)
        if table is not None and table is not full:
            return table
        with self._lock:
            if self._raw.get(field) is full:
                capacity = min(len(self._begins) - 1, MAX_OPEN_SHARDS)
                self._raw[field] = BlockTable(self._begins, capacity, self._shards.dtype(field))
            return self._raw[field]

    def _enter_all(self, table: BlockTable, missing: int, positions: Int64Array, field: str) -> bool:
        """Enter a shard that a batch misses, and others that its positions lie in. Returns whether all are mapped."""
        shards = (missing, *self._shards_of(positions))
        return all(table.has(shard) or self._enter(table, shard, field) for shard in shards)

    def _shards_of(self, positions: Int64Array) -> list[int]:
        shards = np.unique(np.searchsorted(self._begins, positions, side="right") - 1)
        found: list[int] = shards[(shards >= 0) & (shards < len(self._begins) - 1)].tolist()
        return found

    def _enter(self, table: BlockTable, shard: int, field: str) -> bool:
        """Enter a shard that is one mapped block. Returns whether it is."""
        reader = self._shards.reader(shard)
        if len(reader.block_rows) != 2:
            return False
        extents = self._extents(shard, 0, field)
        if not extents.mapped:
            return False
        entry = Entry.of(extents, reader.index.offsets)
        with self._lock:
            if not table.is_full:
                table.enter(shard, entry)
        return True

    def _run_over_some(
        self, field: str, positions: Int64Array, length: int, loop: Loop, *, kept: bool = True
    ) -> tuple[BlockTable, int]:
        """Run a loop over a table of the blocks that it needs, decoded where they are not yet."""
        if len(positions) and (positions.min() < 0 or int(positions.max()) + length > self._begins[-1]):
            raise self._outside(positions, length)
        needed = list(self._blocks(positions, length)) if length else []
        blocks = self._still_there(field, len(needed)) if kept else {}
        for shard, block, first, end in needed:
            if (shard, block) not in blocks:
                blocks[shard, block] = first, end, self._entry(shard, block, field)
        table = BlockTable.of((blocks[key] for key in sorted(blocks)), self._shards.dtype(field))
        if kept:
            self._recent[field] = _Recent(blocks=blocks, table=table)
        return table, loop(table)

    def _still_there(self, field: str, num_needed: int) -> dict[tuple[int, int], _Block]:
        """The blocks of the table before that the cache still has, the last ones, with room for others."""
        recent = self._recent.get(field)
        if recent is None:
            return {}
        last = list(recent.blocks.items())[-max(1, _MAX_RECENT - num_needed) :]
        return {key: block for key, block in last if self._shards.has_extents(*key, field)}

    def _entry(self, shard: int, block: int, field: str) -> Entry:
        extents, reader = self._extents(shard, block, field), self._shards.reader(shard)
        first, last = reader.block_rows[block : block + 2].tolist()
        return Entry.of(extents, reader.index.offsets[first : last + 1])

    def _blocks(self, positions: Int64Array, length: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield shard and number of each block that is needed, its first position and its end, in their order."""
        lows, highs = positions, positions + length
        first = np.searchsorted(self._begins, lows, side="right") - 1
        last = np.searchsorted(self._begins, highs, side="left") - 1
        several = np.flatnonzero(last > first).tolist()
        shards = {*first.tolist(), *(s for i in several for s in range(int(first[i]), int(last[i]) + 1))}
        for shard in sorted(shards):
            reader = self._shards.reader(shard)
            local = reader.block_rows if self._unit == "rows" else reader.index.offsets[reader.block_rows]
            begins = local + self._begins[shard]
            here = (lows < begins[-1]) & (highs > begins[0])
            low = np.maximum(lows[here], begins[0])
            high = np.minimum(highs[here], begins[-1])
            from_block = np.searchsorted(begins, low, side="right") - 1
            to_block = np.searchsorted(begins, high, side="left") - 1
            needed = {b for a, z in zip(from_block.tolist(), to_block.tolist(), strict=True) for b in range(a, z + 1)}
            for block in sorted(needed):
                begin, end = int(begins[block]), int(begins[block + 1])
                if begin < end:
                    yield shard, block, begin, end

    def _extents(self, shard: int, block: int, field: str) -> Extents:
        """The rows of a block, of whole numbers or in the dtype that they are asked for."""
        extents = self._shards.extents(shard, block, field)
        dtype = self._shards.dtype(field)
        if self._unit == "tokens" and field != "tokens":
            self._check_lengths(shard, block, field, extents)
        if extents.dtype == dtype or (extents.dtype.kind in "iu" and dtype.kind != "f"):
            return extents
        items = extents.items(0, len(extents.starts)).astype(dtype)
        starts = offsets_of(extents.lengths)[:-1] * dtype.itemsize
        return replace(extents, buffer=items.view(np.uint8), starts=starts, dtype=dtype, mapped=False)

    def _check_lengths(self, shard: int, block: int, field: str, extents: Extents) -> None:
        """Refuse windows of a field whose rows are not as long as their tokens."""
        reader = self._shards.reader(shard)
        first, last = reader.block_rows[block : block + 2].tolist()
        if not np.array_equal(extents.lengths, np.diff(reader.index.offsets[first : last + 1])):
            raise DataError(
                f"{reader.where}: rows of field {field!r} are not as long as their tokens; it has no windows"
            )

    def _outside(self, positions: Int64Array, length: int) -> IndexError:
        what = "rows" if self._unit == "rows" else f"windows of {length} tokens from"
        return IndexError(
            f"{what} {positions.min()} .. {positions.max()} are not all within the {self._begins[-1]} {self._unit} of "
            f"{self._shards.where}"
        )
