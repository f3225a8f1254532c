"""A corpus opened for reading: the same interface and the same speed in every format.

Rows and tokens are addressed by their position in the whole corpus. Gathers find the extent of each row or window,
vectorized over shards and blocks, and copy all of them at once.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus.addresses import Addresses
from tokenyard.corpus.cache import BoundedCache
from tokenyard.corpus.gather import Runs, split_at
from tokenyard.corpus.shards import open_shard, read_extents
from tokenyard.digest import DIGEST_BLOCK_ROWS
from tokenyard.errors import DataError, SchemaError
from tokenyard.formats.base import Format, ShardReader, iter_pieces
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.manifest import Layout, Manifest
from tokenyard.rows import Array, Offsets, RowBatch, offsets_of
from tokenyard.schema import Schema
from tokenyard.storage import Folder, checksum

#: Tokens in a batch that ``batches`` yields, unless one row alone has more.
BATCH_TOKENS = 1 << 20
_BATCH_ROWS = 64 * DIGEST_BLOCK_ROWS
#: Shards mapped or opened at once; a process has about 65,000 maps.
_MAX_OPEN_SHARDS = 4096


class Corpus:
    """An ordered set of shards with one schema, opened by ``open_corpus``.

    Safe to use from several threads, in forked children, and to pickle (it opens again where it arrives).
    """

    def __init__(
        self,
        folder: Folder,
        manifest: Manifest,
        format: Format,
        indexes: Sequence[ShardIndex] | None = None,
        *,
        cache_bytes: int = 1 << 30,
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._format = format
        self._indexes = indexes
        self._cache_bytes = cache_bytes
        self._row_starts = _cumulative([s.num_rows for s in manifest.shards])
        self._token_starts = _cumulative([s.num_tokens for s in manifest.shards])
        self._row_ends = self._row_starts[1:].astype(np.uint64)
        self._token_ends = self._token_starts[1:].astype(np.uint64)
        lists = {name: type.dtype for name, type in self.schema.fields.items() if type.is_list}
        self._dtypes = {**lists, "tokens": np.dtype(self.schema.token_dtype)}
        self._reset()

    def _reset(self) -> None:
        self._readers: BoundedCache[ShardReader] = BoundedCache(0, _MAX_OPEN_SHARDS)
        self._blocks: BoundedCache[Extents] = BoundedCache(self._cache_bytes, _MAX_OPEN_SHARDS)
        self._row_tables: dict[str, Addresses] = {}
        self._token_tables: dict[str, Addresses] = {}
        self._per_token: dict[tuple[int, str], bool] = {}
        self._lock = threading.Lock()
        # Last: whoever sees it must find caches of this process.
        self._pid = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("folder", "manifest", "_format", "_indexes", "_cache_bytes")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(  # type: ignore[misc]
            state["folder"], state["manifest"], state["_format"], state["_indexes"], cache_bytes=state["_cache_bytes"]
        )

    def __repr__(self) -> str:
        return f"Corpus({str(self.folder.path)!r}, {self.format}, {len(self)} rows, {self.num_tokens} tokens)"

    # ---- what it is ----

    @property
    def format(self) -> str:
        """The name of its format."""
        return self.manifest.format

    @property
    def schema(self) -> Schema:
        """Token dtype, vocabulary and extra fields."""
        return self.manifest.schema

    @property
    def layout(self) -> Layout:
        """Whether rows are documents or packed sequences."""
        return self.manifest.layout

    @property
    def digest(self) -> str | None:
        """The content digest ``ty1:<hex>``; None for a corpus that others made, until it is computed."""
        return self.manifest.digests.tokens if self.manifest.digests else None

    @property
    def structural_id(self) -> str:
        """An id of the shards' names, sizes and row counts; what a corpus without a digest is known by."""
        lines = [f"{f.name}\0{f.bytes}\0{s.num_rows}\0{s.num_tokens}" for s in self.manifest.shards for f in s.files]
        return "structural:" + checksum("\n".join(lines).encode()).removeprefix("blake3:")

    def __len__(self) -> int:
        return int(self._row_starts[-1])

    @property
    def num_tokens(self) -> int:
        """Tokens in all rows."""
        return int(self._token_starts[-1])

    @property
    def shard_row_starts(self) -> Offsets:
        """int64[shards + 1]: the row at which each shard begins, and the number of rows."""
        return self._row_starts

    @property
    def shard_token_starts(self) -> Offsets:
        """int64[shards + 1]: the token at which each shard begins, and the number of tokens."""
        return self._token_starts

    def shard_offsets(self, shard: int) -> Offsets:
        """int64[rows + 1]: the token at which each row of a shard begins, counted in the shard, and their end."""
        return self._reader(shard).index.offsets

    # ---- rows ----

    def __getitem__(self, i: int) -> Array:
        """The tokens of row i, a new one-dimensional array. Negative i counts from the end. Raises IndexError."""
        row = self._checked_row(i)
        shard = int(np.searchsorted(self._row_starts, row, side="right")) - 1
        local = row - int(self._row_starts[shard])
        block_rows = self._reader(shard).block_rows
        block = int(np.searchsorted(block_rows, local, side="right")) - 1
        first = int(block_rows[block])
        items = self._extents(shard, block, "tokens").items(local - first, local - first + 1)
        return items.astype(self._dtypes["tokens"])

    def row(self, i: int) -> dict[str, Any]:
        """Row i with every field: ``{"tokens": array, field: value}``. Raises IndexError."""
        row = self._checked_row(i)
        return next(self.batches(row, row + 1)).row(0)

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[RowBatch]:
        """Rows start .. stop in order, as RowBatches of about a million tokens at most.

        What lies past the end is left out. Raises IndexError for negative numbers.
        """
        start, stop = self._checked_range(start, stop)
        while start < stop:
            shard = int(np.searchsorted(self._row_starts, start, side="right")) - 1
            shard_start = int(self._row_starts[shard])
            end = min(stop, int(self._row_starts[shard + 1]))
            reader = self._reader(shard)
            for a, b in _pieces(reader, start - shard_start, end - shard_start):
                yield reader.rows(a, b)
            start = end

    def row_at(self, token: int) -> tuple[int, int]:
        """The row that holds a position of the token stream, and the position inside it. Raises IndexError."""
        if not 0 <= token < self.num_tokens:
            raise IndexError(f"token {token} is not within the {self.num_tokens} tokens of {self!r}")
        shard = int(np.searchsorted(self._token_starts, token, side="right")) - 1
        offsets = self._reader(shard).index.offsets
        local = token - int(self._token_starts[shard])
        row = int(np.searchsorted(offsets, local, side="right")) - 1
        return int(self._row_starts[shard]) + row, local - int(offsets[row])

    def row_lengths(self, start: int = 0, stop: int | None = None) -> Offsets:
        """int64[stop - start]: the tokens in each of these rows. Reads indexes only; raises as ``batches`` does."""
        start, stop = self._checked_range(start, stop)
        parts = [np.empty(0, np.int64)]
        while start < stop:
            shard = int(np.searchsorted(self._row_starts, start, side="right")) - 1
            shard_start = int(self._row_starts[shard])
            end = min(stop, int(self._row_starts[shard + 1]))
            parts.append(np.diff(self._reader(shard).index.offsets[start - shard_start : end - shard_start + 1]))
            start = end
        return np.concatenate(parts)

    # ---- gathers ----

    def gather_rows(self, rows: NDArray[np.int64], field: str = "tokens") -> tuple[Array, Offsets]:
        """The items of many rows: flat, in the schema's dtype and new memory, and int64[n + 1] offsets.

        ``field``: the tokens, or a list field of numbers. Raises IndexError for rows outside the corpus.
        """
        rows, dtype = _positions(rows), self._dtype(field)
        # Seen as unsigned, a negative row is past the end.
        shards = np.searchsorted(self._row_ends, rows.view(np.uint64), side="right")
        table = self._row_table(field)
        if table is not None and (taken := table.take(shards, rows, table.count)) is not None:
            return _in_dtype(taken.view(table.dtype), dtype), np.arange(len(rows) + 1) * table.count
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(f"rows {rows.min()} .. {rows.max()} are not all within the {len(self)} rows of {self!r}")
        local = rows - self._row_starts[shards]
        runs = Runs()
        for shard in np.unique(shards).tolist():
            at = np.flatnonzero(shards == shard)
            self._add_rows(runs, shard, at, local[at], field)
            self._enter(shard, field)
        flat, lengths = runs.copy(dtype)
        return flat, offsets_of(lengths)

    def gather_windows(self, starts: NDArray[np.int64], length: int, field: str = "tokens") -> Array:
        """Windows of ``length`` tokens of the whole token stream, from each of ``starts`` on: an array [n, length].

        Rows and shards follow one another without a gap. ``field``: the tokens, or a list field of numbers whose rows
        are as long as the tokens'. Raises IndexError for windows outside the corpus, DataError for a field of other
        lengths.
        """
        starts, dtype = _positions(starts), self._dtype(field)
        if length < 0:
            raise ValueError(f"windows of {length} tokens")
        shards = np.searchsorted(self._token_ends, starts.view(np.uint64), side="right")
        table = self._token_table(field)
        if table is not None and self._inside(shards, starts, length):
            taken = table.take(shards, starts, length)
            if taken is not None:
                return _in_dtype(taken.view(table.dtype), dtype).reshape(len(starts), length)
        if len(starts) and (starts.min() < 0 or int(starts.max()) + length > self.num_tokens):
            raise IndexError(
                f"windows of {length} tokens from {starts.min()} .. {starts.max()} are not all within the "
                f"{self.num_tokens} tokens of {self!r}"
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
        table, of_tokens = self._row_table(field), self._row_table("tokens")
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
        block_rows = self._reader(shard).block_rows
        blocks = np.searchsorted(block_rows, local, side="right") - 1
        for block in np.unique(blocks).tolist():
            extents = self._extents(shard, block, field)
            some = blocks == block
            row = local[some] - block_rows[block]
            runs.add(places[some], extents.address + extents.starts[row], extents.lengths[row], extents.dtype, extents)

    def _add_windows(self, runs: Runs, shard: int, places: Offsets, low: Offsets, high: Offsets, field: str) -> None:
        """Windows inside one shard, cut where storage blocks end and, unless the block is flat, where rows end."""
        reader = self._reader(shard)
        offsets = reader.index.offsets
        origin, blocks, low, high = split_at(offsets[reader.block_rows], low_in := low, high)
        places = places[origin] + low - low_in[origin]
        for block in np.unique(blocks).tolist():
            extents = self._extents(shard, block, field)
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

    # ---- shards ----

    def _row_table(self, field: str) -> Addresses | None:
        self._check_process()
        return self._row_tables.get(field)

    def _token_table(self, field: str) -> Addresses | None:
        self._check_process()
        return self._token_tables.get(field)

    def _enter(self, shard: int, field: str) -> None:
        """Put a raw shard into the tables of addresses, so that the next batch finds its rows without a loop."""
        if len(self._reader(shard).block_rows) != 2:
            return
        extents = self._extents(shard, 0, field)
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
        if table is None or len(table.owners) >= _MAX_OPEN_SHARDS or (table.stride == 0 and shape[0]):
            table = Addresses.empty(len(self.manifest.shards), *shape, extents.dtype)
        one_row = len(extents.starts) == 1 and shape[1] == table.count
        fits = extents.dtype == table.dtype and (one_row or shape == (table.stride, table.count))
        if fits and not table.has(np.array([shard])):
            tables[field] = table.with_shard(shard, first, extents)

    def _is_per_token(self, shard: int, field: str, extents: Extents) -> bool:
        key = (shard, field)
        if key not in self._per_token:
            row_lengths = np.diff(self._reader(shard).index.offsets)
            self._per_token[key] = bool(np.array_equal(extents.lengths, row_lengths))
        return self._per_token[key]

    def _reader(self, shard: int) -> ShardReader:
        self._check_process()
        return self._readers.get(shard, lambda: self._open_shard(shard), lambda _: 0)

    def _open_shard(self, shard: int) -> ShardReader:
        index = self._indexes[shard] if self._indexes is not None else None
        return open_shard(self.folder, self._format, self.manifest.shards[shard], self.schema, index)

    def _extents(self, shard: int, block: int, field: str) -> Extents:
        reader, dtype = self._reader(shard), self._dtype(field)
        return self._blocks.get(
            (shard, block, field), lambda: read_extents(reader, block, field, dtype), lambda e: e.memory_bytes
        )

    def _dtype(self, field: str) -> np.dtype[Any]:
        if field not in self._dtypes:
            lists = [n for n in self._dtypes if n != "tokens"]
            raise SchemaError(f"{self!r} has no list field {field!r}; it has {', '.join(lists) or 'none'}")
        return self._dtypes[field]

    def _check_process(self) -> None:
        """After a fork, begin with caches of our own: another thread may have held the parent's locks."""
        if self._pid != os.getpid():
            self._reset()

    def _checked_row(self, i: int) -> int:
        i = operator.index(i)
        row = i + len(self) if i < 0 else i
        if not 0 <= row < len(self):
            raise IndexError(f"row {i} is not within the {len(self)} rows of {self!r}")
        return row

    def _checked_range(self, start: int, stop: int | None) -> tuple[int, int]:
        stop = len(self) if stop is None else stop
        if start < 0 or stop < 0:
            raise IndexError(f"rows {start} .. {stop}: rows are counted from 0 on, {self!r} has no negative ones")
        return start, min(stop, len(self))


def _in_dtype(items: Array, dtype: np.dtype[Any]) -> Array:
    return items if items.dtype == dtype else items.astype(dtype)


def _positions(values: Any) -> NDArray[np.int64]:
    """``values`` as int64[n]. Raises IndexError for anything but whole numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise IndexError(f"positions are a flat array of whole numbers, not {array.ndim}-dimensional {array.dtype}")
    return array if array.dtype == np.int64 else array.astype(np.int64)


def _cumulative(counts: Sequence[int]) -> Offsets:
    return offsets_of(np.array(counts, np.int64))


def _pieces(reader: ShardReader, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Rows start .. stop cut at storage blocks, and inside them where a batch has enough rows or tokens."""
    while start < stop:
        block = int(np.searchsorted(reader.block_rows, start, side="right")) - 1
        end = min(stop, int(reader.block_rows[block + 1]), start + _BATCH_ROWS)
        yield from iter_pieces(reader, start, end, BATCH_TOKENS)
        start = end
