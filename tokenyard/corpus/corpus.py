"""A corpus opened for reading: the same interface and the same speed in every format.

Rows and tokens are addressed by their position in the whole corpus.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tokenyard.corpus.fetching import Grain, Needed, grain_of, is_cut_every, needed_for
from tokenyard.corpus.gather import Gatherer
from tokenyard.corpus.read_ahead import ReadAhead
from tokenyard.corpus.shards import OpenShards
from tokenyard.digest import DIGEST_BLOCK_ROWS
from tokenyard.formats.base import Format, ShardReader, iter_pieces
from tokenyard.formats.index import ShardIndex
from tokenyard.manifest import Layout, Manifest
from tokenyard.rows import Array, Offsets, RowBatch
from tokenyard.schema import Schema
from tokenyard.storage import Bucket, Folder, ObjectPath, checksum
from tokenyard.storage.cache import DiskCache, FolderCache

#: Tokens in a batch that ``batches`` yields, unless told otherwise, or one row alone has more.
BATCH_TOKENS = 1 << 20
_BATCH_ROWS = 64 * DIGEST_BLOCK_ROWS


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
        self._reset()

    def _reset(self) -> None:
        self._shards = OpenShards(self.folder, self.manifest, self._format, self._indexes, self._cache_bytes)
        self._row_starts, self._token_starts = self._shards.row_starts, self._shards.token_starts
        self._gatherer: Gatherer | None = None
        # Last: whoever sees it must find caches of this process.
        self._pid = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("folder", "manifest", "_format", "_indexes", "_cache_bytes")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}, {self.format}, {len(self)} rows, {self.num_tokens} tokens)"

    # ---- what it is ----

    @property
    def path(self) -> Path | ObjectPath:
        """Where it is: its folder or its URL, or the one file that somebody else's corpus is."""
        return self._shards.path

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
        told = "\n".join(lines).encode("utf-8", "surrogateescape")
        return "structural:" + checksum(told).removeprefix("blake3:")

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

    def shard_index(self, shard: int) -> ShardIndex:
        """The row index of a shard."""
        return self._reader(shard).index

    def shard_block_rows(self, shard: int) -> Offsets:
        """int64[blocks + 1]: the row at which each storage block of a shard begins, and their end, in the corpus."""
        begins: Offsets = self._reader(shard).block_rows + self._row_starts[shard]
        return begins

    def check_shard(self, shard: int) -> None:
        """Look anew whether a shard's files and row index are as the manifest says: sizes, counts, bounds.

        No row is read. Raises DataError, StorageError.
        """
        self._check_process()
        self._shards.open(shard)

    def read_through(self, disk: DiskCache) -> None:
        """Read the shards through a cache from now on, where they lie at a URL; nothing changes where they don't.

        The cache knows them by their checksums; what has none, by its URL and etag.
        """
        if not isinstance(self.folder, Bucket):
            return
        folder, files = self.folder, [file for shard in self.manifest.shards for file in shard.files]
        by = [(f.name, f.bytes, f.checksum or f"{folder.url} {folder.modified(f.name)}") for f in files]
        folder.read_through(FolderCache(disk, checksum(repr(by).encode())))
        self._reset()

    # ---- rows ----

    def __getitem__(self, i: int) -> Array:
        """The tokens of row i, a new one-dimensional array. Negative i counts from the end. Raises IndexError."""
        row = self._checked_row(i)
        shard = int(np.searchsorted(self._row_starts, row, side="right")) - 1
        local = row - int(self._row_starts[shard])
        block_rows = self._reader(shard).block_rows
        block = int(np.searchsorted(block_rows, local, side="right")) - 1
        first = int(block_rows[block])
        items = self._shards.extents(shard, block, "tokens").items(local - first, local - first + 1)
        return items.astype(self._shards.dtype("tokens"))

    def row(self, i: int) -> dict[str, Any]:
        """Row i with every field: ``{"tokens": array, field: value}``. Raises IndexError."""
        row = self._checked_row(i)
        return next(self.batches(row, row + 1)).row(0)

    def batches(self, start: int = 0, stop: int | None = None, *, max_tokens: int = BATCH_TOKENS) -> Iterator[RowBatch]:
        """Rows start .. stop in order, as RowBatches of at most ``max_tokens`` tokens (about a million), or one row.

        What lies past the end is left out. Raises IndexError for negative numbers.
        """
        start, stop = self._checked_range(start, stop)
        while start < stop:
            shard = int(np.searchsorted(self._row_starts, start, side="right")) - 1
            shard_start = int(self._row_starts[shard])
            end = min(stop, int(self._row_starts[shard + 1]))
            reader = self._reader(shard)
            for a, b in _pieces(reader, start - shard_start, end - shard_start, max_tokens):
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

    def row_lengths_of(self, rows: NDArray[np.int64]) -> Offsets:
        """int64[n]: the tokens in each of some rows, in any order. Reads indexes of the shards that hold them only.

        Raises IndexError for rows outside the corpus.
        """
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(f"rows {rows.min()} .. {rows.max()} are not all within the {len(self)} rows of {self!r}")
        shards = np.searchsorted(self._row_starts, rows, side="right") - 1
        by_shard = np.argsort(shards, kind="stable")
        present, firsts = np.unique(shards[by_shard], return_index=True)
        lengths = np.empty(len(rows), np.int64)
        for shard, first, stop in zip(present.tolist(), firsts, [*firsts[1:], len(rows)], strict=False):
            places = by_shard[first:stop]
            local = rows[places] - self._row_starts[shard]
            offsets = self._reader(shard).index.offsets
            lengths[places] = offsets[local + 1] - offsets[local]
        return lengths

    # ---- gathers ----

    def gather_rows(
        self, rows: NDArray[np.int64], field: str = "tokens", dtype: DTypeLike | None = None
    ) -> tuple[Array, Offsets]:
        """The items of many rows: flat, in new memory, and int64[n + 1] offsets.

        ``field``: the tokens, or a list field of numbers. ``dtype``: that of the result; the schema's when not given,
        and int64 costs no more. Raises IndexError for rows outside the corpus.
        """
        return self._gathers().rows(rows, field, dtype)

    def gather_windows(
        self, starts: NDArray[np.int64], length: int, field: str = "tokens", dtype: DTypeLike | None = None
    ) -> Array:
        """Windows of ``length`` tokens of the whole token stream, from each of ``starts`` on: an array [n, length].

        Rows and shards follow one another without a gap. ``field``: the tokens, or a list field of numbers whose rows
        are as long as the tokens'. ``dtype``: as in ``gather_rows``. Raises IndexError for windows outside the corpus,
        DataError for a field of other lengths.
        """
        return self._gathers().windows(starts, length, field, dtype)

    def copy_windows(
        self,
        starts: NDArray[np.int64],
        lines: NDArray[np.int64] | None,
        inputs: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        *,
        shift: int,
    ) -> None:
        """Copy windows of the token stream into lines of the caller's, and once more, ``shift`` tokens on, as labels.

        ``starts``: int64[n], the first token of each. ``lines``: int64[n], the line that each goes to; the first n when
        not given. ``inputs``, ``labels``: int64[lines, seq_len], contiguous. Raises IndexError for windows outside the
        corpus, and lines outside the inputs; some lines may have been written by then.
        """
        self._gathers().copy_windows(starts, lines, inputs, labels, shift=shift)

    def copy_rows(
        self,
        rows: NDArray[np.int64],
        width: int,
        lines: NDArray[np.int64] | None,
        inputs: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        *,
        shift: int,
        fill: int,
        ignored: int,
    ) -> None:
        """Copy rows of one length into lines of the caller's, and once more, ``shift`` tokens on, as labels.

        ``rows``: int64[n]. ``width``: the tokens of each. ``lines``: int64[n], the line that each goes to; the first n
        when not given. ``inputs``, ``labels``: int64[lines, seq_len], contiguous; after a row follows ``fill`` in the
        one and ``ignored`` in the other. Raises IndexError for rows outside the corpus, and lines outside the inputs,
        DataError for rows of another length, or longer than a line; some lines may have been written by then.
        """
        self._gathers().copy_rows(rows, width, lines, inputs, labels, shift=shift, fill=fill, ignored=ignored)

    def row_starts_in_windows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
        """bool[n, length]: the tokens that are the first of a row, in windows of the token stream.

        Raises IndexError for windows outside the corpus.
        """
        return self._gathers().row_starts_in_windows(starts, length)

    def number_rows_in_windows(
        self,
        starts: NDArray[np.int64],
        positions: NDArray[np.int32],
        numbers: NDArray[np.int32],
        ends: NDArray[np.int32],
    ) -> tuple[int, int]:
        """Write, for windows of the token stream, the place of each token in its row, and which row that is.

        ``starts``: int64[n], the first token of each window. ``positions``: int32[n, length], contiguous, from 0 on in
        each row and at the begin of each window. ``numbers``: the same shape; rows are counted from 0 in each window.
        ``ends``: int32[n * length + 1], of which 0 and the end of each row are written, counted in the windows seen as
        one line. Returns how many rows there are, and the tokens of the longest; empty rows are none. Raises IndexError
        for windows outside the corpus.
        """
        return self._gathers().number_rows_in_windows(starts, positions, numbers, ends)

    def read_ahead(self) -> ReadAhead:
        """What one thread may ask the system for, of the token stream, before it is read."""
        self._check_process()
        return ReadAhead(self._shards)

    def needed_for(self, start: int, stop: int, unit: str, fields: Sequence[str]) -> Iterator[Needed]:
        """What is read of files for positions start .. stop, in "rows" or in "tokens"; see ``fetching``."""
        self._check_process()
        return needed_for(self._shards, start, stop, unit, fields)

    def grain(self) -> Grain:
        """How its shards come from where they lie; as the first one does, which is opened. Raises DataError."""
        return grain_of(self._reader(0)) if self.manifest.shards else Grain(in_ranges=True, num_blocks=1)

    def is_cut_every(self, size: int, unit: str) -> bool:
        """Whether a storage block begins at each multiple of ``size`` "rows" or "tokens", as in the first shard."""
        self._check_process()
        return is_cut_every(self._shards, size, unit)

    # ---- its own ----

    def _reader(self, shard: int) -> ShardReader:
        self._check_process()
        return self._shards.reader(shard)

    def _gathers(self) -> Gatherer:
        self._check_process()
        gatherer = self._gatherer
        if gatherer is None:
            # Of two threads that come here at once, one makes a gatherer for nothing.
            gatherer = self._gatherer = Gatherer(self._shards)
        return gatherer

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


def _pieces(reader: ShardReader, start: int, stop: int, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Rows start .. stop cut at storage blocks, and inside them where a batch has enough rows or tokens."""
    while start < stop:
        block = int(np.searchsorted(reader.block_rows, start, side="right")) - 1
        end = min(stop, int(reader.block_rows[block + 1]), start + _BATCH_ROWS)
        yield from iter_pieces(reader.index.offsets, start, end, max_tokens)
        start = end
