"""Reading Parquet row groups: extent tables for gathers, and pieces in order for conversion.

Nothing is shared between threads or processes but the parsed footer; every decode opens the file anew, which costs some
50 microseconds against the milliseconds of a row group. Only row groups that are being walked through, a few of a
process, stay open, and no longer than their reader lives.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokenyard.errors import DataError, TokenyardError
from tokenyard.formats.base import ShardReader, Span
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.parquet.footer import Chunk, RowGroup, check_declared, read_footer
from tokenyard.formats.parquet.pages import check_pages
from tokenyard.formats.shared.arrow import column_of, tokens_of
from tokenyard.formats.shared.blocks import Recent
from tokenyard.formats.shared.foreign import Place
from tokenyard.formats.shared.promises import promised_array, promised_text, rising_array
from tokenyard.manifest import ShardInfo
from tokenyard.rows import Array, Offsets, RowBatch, offsets_of
from tokenyard.schema import Schema
from tokenyard.storage import Folder, ObjectFile, ObjectPath, storage_error

#: Read at a time: a column of a row group that others wrote can be larger than memory.
_READ_BYTES = 1 << 20
#: Column chunks of an object that lie no further apart are fetched at once.
_NEAR_BYTES = 64 << 10
#: More than most footers have.
_TAIL_BYTES = 64 << 10


@dataclass
class Footer:
    """A shard's parsed footer, once somebody has read it, and the columns of its row groups that were looked at."""

    metadata: Any = None
    groups: Sequence[RowGroup] | None = None
    checked: set[tuple[int, str]] = field(default_factory=set)

    def check(self, path: Path | str, group: int, columns: Sequence[str], file: ObjectFile | None = None) -> None:
        """Raise DataError for a row group that is not there, or columns that decoding could blow up.

        ``file``: the object itself, where it is one; its columns are fetched with it.
        """
        groups = self.groups
        if groups is None:
            groups = self.groups = read_footer(path, file)
        if not 0 <= group < len(groups):
            raise DataError(f"{path}: no row group {group}, it has {len(groups)}; restore it, or index it again")
        if file is not None:
            for start, stop in _ranges([chunk for c in columns for chunk in groups[group].of(c)]):
                file.prefetch(start, stop)
        new = [c for c in columns if (group, c) not in self.checked]
        check_declared(path, group, groups[group], new)
        for column in new:
            for chunk in groups[group].of(column):
                check_pages(path, group, column, chunk, file)
        self.checked.update((group, c) for c in new)


class ParquetReader(ShardReader):
    """One shard. ``groups`` and ``piece_rows`` of the index: each block's row group, and the rows decoded at a time."""

    def __init__(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> None:
        where = str(folder.at(shard.name))
        super().__init__(where, index, index.arrays["block_rows"])
        self.path = folder.at(shard.name)
        self.schema = schema
        self.tokens = promised_text({"tokens": "tokens", **shard.meta}, "tokens", None, where)
        blocks = len(self.block_rows) - 1
        if "groups" in index.arrays:
            self.groups = rising_array(index, "groups", blocks, where)
            self.piece_rows = np.maximum(promised_array(index, "piece_rows", blocks, where), 1)
        else:
            self.groups, self.piece_rows = np.arange(blocks), np.diff(self.block_rows)
        self.footer = Footer()
        self._raw = folder.raw(shard.name, shard.files[0].bytes)

    def extents(self, block: int, field: str = "tokens") -> Extents:
        """Decodes one column of a row group."""
        rows = int(self.block_rows[block + 1] - self.block_rows[block])
        name = self.tokens if field == "tokens" else field
        parts: list[tuple[Array, Offsets]] = []
        found = 0
        for batch in decode(self.path, self.footer, int(self.groups[block]), [name], rows):
            place = place_of(self.path, int(self.groups[block]), found)
            if field == "tokens":
                parts.append(tokens_of(batch.column(name), place))
            else:
                column = column_of(batch.column(name), self.schema.fields[field], place)
                assert column.offsets is not None
                parts.append((column.values, column.offsets))
            found += len(batch)
        if len(parts) == 1:
            values, lengths = parts[0][0], np.diff(parts[0][1])
        else:
            values = np.concatenate([p[0] for p in parts] or [np.empty(0, np.uint8)])
            lengths = np.concatenate([np.diff(p[1]) for p in parts] or [np.empty(0, np.int64)])
        self.check(block, lengths, values.dtype, field)
        starts = offsets_of(lengths)[:-1] * values.itemsize
        return Extents(buffer=values.view(np.uint8), starts=starts, lengths=lengths, dtype=values.dtype, mapped=False)

    def spans(self, first: int, last: int, fields: Sequence[str]) -> list[Span]:
        """The columns of the row groups. Reads the footer. Raises DataError, StorageError."""
        if self.footer.groups is None:
            self.footer.groups = read_footer(self.path, object_at(self.path))
        known, found = self.footer.groups, []
        names = [self.tokens if field == "tokens" else field for field in fields]
        for group in self.groups[first : last + 1].tolist():
            chunks = [c for name in names for c in known[group].of(name)] if 0 <= group < len(known) else []
            found += [Span(self._raw, start, min(stop, self._raw.num_bytes)) for start, stop in _ranges(chunks)]
        return [span for span in found if span.start < span.stop]

    def head_spans(self) -> list[Span]:
        """The footer, as far as it is likely to go."""
        return [Span(self._raw, max(0, self._raw.num_bytes - _TAIL_BYTES), self._raw.num_bytes)]

    def rows(self, start: int, stop: int) -> RowBatch:
        """Decodes every column; goes on where the last call ended, so that a walk in order decodes each row once."""
        parts = []
        while start < stop:
            block = int(np.searchsorted(self.block_rows, start, side="right")) - 1
            end = min(stop, int(self.block_rows[block + 1]))
            parts += self._rows_of(block, start, end)
            start = end
        return RowBatch.concat(parts) if parts else RowBatch.empty(self.schema)

    def _rows_of(self, block: int, start: int, stop: int) -> list[RowBatch]:
        cursor = _recent.take(self, block)
        if cursor is not None and cursor.row > start:
            cursor.close()
            cursor = None
        cursor = cursor or _Cursor(self, block)
        try:
            parts = list(cursor.read(self, start, stop))
        except BaseException:
            cursor.close()
            raise
        if cursor.row < self.block_rows[block + 1]:
            _recent.put(self, block, cursor)
        else:
            cursor.close()
        return parts

    def check(self, block: int, lengths: Offsets, dtype: np.dtype[Any], field: str = "tokens") -> None:
        """Raise DataError when a block's rows are not those that the index and the schema promise."""
        promised = np.diff(self.index.offsets[self.block_rows[block] : self.block_rows[block + 1] + 1])
        expected = np.dtype(self.schema.token_dtype) if field == "tokens" else self.schema.fields[field].dtype
        same = np.array_equal(promised, lengths) if field == "tokens" else len(promised) == len(lengths)
        if not same or dtype != expected:
            raise DataError(
                f"{self.where}: row group {self.groups[block]} holds {len(lengths)} rows of {int(lengths.sum())} "
                f"{dtype} items of {field}, expected {len(promised)} rows of {int(promised.sum())} {expected}; the "
                "file was changed, restore it or index it again"
            )


class _Cursor:
    """Walks one row group piece by piece; holds one piece and an open file, but not the reader."""

    def __init__(self, reader: ParquetReader, block: int) -> None:
        self.row = int(reader.block_rows[block])
        self._end = int(reader.block_rows[block + 1])
        self._group = int(reader.groups[block])
        self._first = self.row
        names = [reader.tokens, *reader.schema.fields]
        self._batches = decode(reader.path, reader.footer, self._group, names, int(reader.piece_rows[block]))
        self._held = RowBatch.empty(reader.schema)

    def read(self, reader: ParquetReader, start: int, stop: int) -> Iterator[RowBatch]:
        """Rows start .. stop, from ``row`` on, in one or more batches."""
        while self.row < stop:
            if not len(self._held):
                self._held = self._next(reader)
            skip = min(max(start - self.row, 0), len(self._held))
            end = min(stop - self.row, len(self._held))
            if skip < end:
                yield self._held.slice(skip, end)
            done = max(skip, end)
            self._held = self._held.slice(done, len(self._held))
            self.row += done

    def close(self) -> None:
        """Close the file."""
        self._batches.close()

    def _next(self, reader: ParquetReader) -> RowBatch:
        batch = next(self._batches, None)
        if batch is None:
            raise DataError(
                f"{reader.where}: row group {self._group} ends at row {self.row - self._first} of "
                f"{self._end - self._first}; the file was changed, restore it or index it again"
            )
        place = place_of(reader.path, self._group, self.row - self._first)
        tokens, offsets = tokens_of(batch.column(reader.tokens), place)
        promised = reader.index.offsets[self.row : self.row + len(batch) + 1]
        if len(promised) != len(offsets) or not np.array_equal(promised - promised[0], offsets):
            raise DataError(
                f"{place(0)} and after: rows have other lengths than the index says; the file was changed, restore it "
                "or index it again"
            )
        fields = {n: column_of(batch.column(n), t, place) for n, t in reader.schema.fields.items()}
        return RowBatch(tokens=tokens, offsets=offsets, fields=fields)


_recent: Recent[_Cursor] = Recent(_Cursor.close)


def decode(
    path: Path, footer: Footer | None, group: int, columns: list[str], batch_rows: int
) -> Generator[pa.RecordBatch]:
    """The batches of a row group. One thread, no read-ahead: callers bring their own threads."""
    footer = footer or Footer()
    remote = object_at(path)
    footer.check(path, group, columns, remote)
    with reading(path, f"row group {group}"), remote or pa.OSFile(str(path)) as source:
        file = pq.ParquetFile(
            source, metadata=footer.metadata, pre_buffer=False, buffer_size=_READ_BYTES, page_checksum_verification=True
        )
        footer.metadata = file.metadata
        for batch in file.iter_batches(batch_rows, row_groups=[group], columns=columns, use_threads=False):
            if absent := sorted(set(columns) - set(batch.schema.names)):
                raise DataError(f"{path}: no column {', '.join(absent)} any more; the file was changed, restore it")
            yield batch


def object_at(path: Path | ObjectPath) -> ObjectFile | None:
    """An object as an open file; None for a file of this machine. Raises StorageError."""
    return path.open() if isinstance(path, ObjectPath) else None


def _ranges(chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
    """The bytes of some column chunks, those that nearly touch as one range."""
    found: list[tuple[int, int]] = []
    for chunk in sorted(chunks, key=lambda c: c.start):
        start, stop = chunk.start, chunk.start + chunk.stored_bytes
        if found and start - found[-1][1] <= _NEAR_BYTES:
            start, stop = found[-1][0], max(stop, found.pop()[1])
        found.append((start, stop))
    return found


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn what pyarrow raises into a DataError that names the file and ``what``."""
    try:
        yield
    except TokenyardError:
        raise
    except FileNotFoundError as e:
        raise storage_error(e, f"can't read {path}") from e
    except MemoryError as e:
        raise DataError(
            f"{path}: {what} needs more memory than there is ({e}); write the file again in smaller row groups"
        ) from None
    except (pa.ArrowException, OSError, ValueError, IndexError, KeyError) as e:
        why = " ".join(str(e).split())
        raise DataError(f"{path}: {what} can't be decoded ({why}); restore the file, or write it again") from None


def place_of(path: Path, group: int, first: int) -> Place:
    """How errors name rows of a row group, counted from its row ``first``."""
    return lambda row: f"{path}: row group {group}, row {first + row}"
