"""Rows as lines of text: what JSONL and CSV share.

A shard is a run of storage blocks, each some rows that are read and decoded together; the index keeps the byte at which
each begins. Compressed, every block is a gzip member or a zstd frame of its own, so that blocks are read alone and any
tool still reads the file as one stream.
"""

from __future__ import annotations

import gzip
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import zstandard
from pydantic import Field

from tokenyard.errors import DataError, SchemaError
from tokenyard.formats.base import Format, FormatOptions, ShardReader, ShardSource, Span, WrittenShard, options_of
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.shared.blocks import BLOCK_ROWS, Recent, cut_blocks, row_bytes
from tokenyard.formats.shared.compression import decompress_up_to
from tokenyard.formats.shared.foreign import Place, check_ids
from tokenyard.formats.shared.promises import promised_names, promised_text
from tokenyard.manifest import ShardInfo
from tokenyard.rows import RowBatch, cast_tokens, offsets_of
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder, open_regular, storage_error

#: Bytes of tokens and fields in a block of more than one row; as text they are two to five times that.
_BLOCK_BYTES = 8 << 20
_SCAN_BYTES = 32 << 20
#: An id and its separator take up to 11 bytes.
MAX_ROW_BYTES = 2**31
_MAX_ROW_TOKENS = MAX_ROW_BYTES // 11
COMPRESSED = {"none": "", "gzip": ".gz", "zstd": ".zst"}
_DECOMPRESSED = {".gz": "gz", ".zst": "zstd"}
#: What a block of several rows may grow to: no value takes more than 24 bytes of text for each of its own, and, with
#: what stands around its name, some hundred more.
_MAX_BLOCK_BYTES = 24 * _BLOCK_BYTES
_MAX_MARKS = 512

Fields = Mapping[str, FieldType]
Lines = Iterator[tuple[int, bytes]]


class TextOptions(FormatOptions):
    """How shards are compressed."""

    compression: Literal["none", "gzip", "zstd"] = Field(
        default="none", description="How each storage block is compressed."
    )


class TextFormat(Format):
    """A format that turns rows into lines, and lines into rows."""

    Options = TextOptions

    def header(self, schema: Schema) -> bytes:
        """What a shard begins with."""
        del schema
        return b""

    @abstractmethod
    def encode(self, rows: RowBatch, first_row: int, schema: Schema) -> pa.Array:
        """One text a row, its line end included. ``first_row``: the rows of the shard that come before."""

    @abstractmethod
    def start(self, path: Path) -> tuple[int, int]:
        """The byte at which the first row of a file begins, and the number of that line, from 1."""

    @abstractmethod
    def records(self, lines: Lines, meta: Mapping[str, Any], where: str) -> Lines:
        """The rows among numbered lines: the number of the line where each begins, and its text without line end."""

    @abstractmethod
    def decode(self, records: Sequence[bytes], meta: Mapping[str, Any], fields: Fields, place: Place) -> RowBatch:
        """Rows from their texts, tokens as int64. Raises DataError that names the row by ``place(row)``."""

    def read_meta(self, shard: ShardInfo, schema: Schema) -> Mapping[str, Any]:
        """What ``decode`` must know of a shard: as discovered, or as this format writes it. Raises DataError."""
        meta = shard.meta or {"tokens": "tokens", "names": sorted(schema.fields), "all": True}
        promised_text(meta, "tokens", None, shard.name)
        promised_names(meta, "names", shard.name)
        return {"all": True, **meta}

    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        """One file."""
        chosen = options_of(self.name, TextOptions, options)
        rows = RowBatch.concat(batches)
        if len(rows) and rows.lengths.max() > _MAX_ROW_TOKENS:
            raise SchemaError(
                f"row {int(rows.lengths.argmax())} of shard {stem}: {rows.lengths.max()} tokens; a line of text holds "
                f"{_MAX_ROW_TOKENS}, cut the row or use another format"
            )
        block_rows = cut_blocks(row_bytes(rows), BLOCK_ROWS, _BLOCK_BYTES)
        starts = []
        with folder.publish(stem + self.suffix + COMPRESSED[chosen.compression]) as file:
            if header := self.header(schema):
                file.write(_compressed(chosen.compression, header))
            for start, stop in zip(block_rows[:-1].tolist(), block_rows[1:].tolist(), strict=True):
                starts.append(file.tell())
                text = _text_of(self.encode(rows.slice(start, stop), start, schema))
                file.write(_compressed(chosen.compression, text))
            starts.append(file.tell())
        arrays = {"block_rows": block_rows, "block_starts": np.array(starts, np.int64)}
        index = ShardIndex(arrays={"offsets": offsets_of(rows.lengths), **arrays})
        return WrittenShard(files=(file.info,), index=index)

    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        """Opens nothing yet."""
        return _Reader(self, folder, shard, index, schema)

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        """Decodes everything once, fields too, so that every fault is found with its line."""
        path = folder.at(shard.files[0].name)
        lengths, block_rows, starts = [np.empty(0, np.int64)], [0], [0]
        for start, stop, numbers, records in self._pieces(path, shard.meta):
            place = _place_by_line(path, numbers)
            batch = self.decode(records, shard.meta, schema.fields, place)
            check_ids(batch.tokens, batch.offsets, place)
            lengths.append(batch.lengths)
            block_rows.append(block_rows[-1] + len(batch))
            starts[-1:] = [start, stop]
        arrays = {"block_rows": block_rows, "block_starts": starts}
        found = {name: np.array(values, np.int64) for name, values in arrays.items()}
        return ShardIndex(arrays={"offsets": offsets_of(np.concatenate(lengths)), **found})

    def _pieces(self, path: Path, meta: Mapping[str, Any]) -> Iterator[tuple[int, int, list[int], list[bytes]]]:
        """Runs of rows: the bytes where each run begins and ends; the first line, and the text, of each row."""
        try:
            at, line = self.start(path)
            with open_regular(path) as f:
                lines = NumberedLines(f, at, line, str(path))
                start, numbers, records = at, [], []
                for number, record in self.records(iter(lines), meta, str(path)):
                    numbers.append(number)
                    records.append(record)
                    if len(records) == BLOCK_ROWS or lines.at - start >= _SCAN_BYTES:
                        yield start, lines.at, numbers, records
                        start, numbers, records = lines.at, [], []
                if records:
                    yield start, lines.at, numbers, records
        except OSError as e:
            raise storage_error(e, f"can't read {path}") from e


class NumberedLines:
    """The lines of an open file from byte ``at`` on, that line having a number; ``at`` follows what was given out."""

    def __init__(self, file: IO[bytes], at: int, number: int, where: str) -> None:
        self._file = file
        self._number = number
        self._where = where
        self.at = at

    def __iter__(self) -> Lines:
        self._file.seek(self.at)
        for number, line in enumerate(iter(lambda: self._file.readline(MAX_ROW_BYTES), b""), self._number):
            if len(line) == MAX_ROW_BYTES:
                raise DataError(
                    f"{self._where}: line {number} has over {MAX_ROW_BYTES} bytes; a row is one line, cut it"
                )
            self.at += len(line)
            yield number, line


class _Reader(ShardReader):
    """Reads and decodes a block for each call; keeps only a block that ``rows`` is walking through."""

    def __init__(self, format: TextFormat, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> None:
        super().__init__(str(folder.at(shard.name)), index, index.arrays["block_rows"])
        self._format = format
        self._path = folder.at(shard.name)
        self._raw = folder.raw(shard.name, shard.files[0].bytes)
        self._meta = format.read_meta(shard, schema)
        self._schema = schema
        starts = index.arrays["block_starts"]
        if (
            len(starts) != len(self.block_rows)
            or int(starts[0]) < 0
            or int(starts[-1]) > shard.files[0].bytes
            or (starts[1:] < starts[:-1]).any()
        ):
            raise DataError(
                f"{self.where}: its row index places {len(self.block_rows) - 1} blocks outside of its "
                f"{shard.files[0].bytes} bytes; the index is damaged, rebuild it with 'tokenyard index'"
            )

    def extents(self, block: int, field: str = "tokens") -> Extents:
        if field == "tokens":
            rows = self._decode(block, {})
            values, offsets = rows.tokens, rows.offsets
        else:
            column = self._decode(block, {field: self._schema.fields[field]}).fields[field]
            assert column.offsets is not None
            values, offsets = column.values, column.offsets
        return Extents(
            buffer=values.view(np.uint8),
            starts=offsets[:-1] * values.itemsize,
            lengths=np.diff(offsets),
            dtype=values.dtype,
            mapped=False,
        )

    def spans(self, first: int, last: int, fields: Sequence[str]) -> list[Span]:
        del fields
        starts = self.index.arrays["block_starts"]
        return [Span(self._raw, int(starts[first]), int(starts[last + 1]))] if starts[first] < starts[last + 1] else []

    def rows(self, start: int, stop: int) -> RowBatch:
        parts = []
        while start < stop:
            block = int(np.searchsorted(self.block_rows, start, side="right")) - 1
            first, last = int(self.block_rows[block]), int(self.block_rows[block + 1])
            end = min(stop, last)
            rows = _recent.take(self, block) or self._decode(block, self._schema.fields)
            parts.append(rows.slice(start - first, end - first))
            if end < last:
                _recent.put(self, block, rows)
            start = end
        return RowBatch.concat(parts) if parts else RowBatch.empty(self._schema)

    def _decode(self, block: int, fields: Fields) -> RowBatch:
        first, last = int(self.block_rows[block]), int(self.block_rows[block + 1])
        lines = self._read(block).split(b"\n")
        if not lines[-1]:
            lines.pop()
        where = f"{self.where}: rows {first} .. {last - 1}"
        records = [r for _, r in self._format.records(iter(enumerate(lines, 1)), self._meta, where)]
        rows = self._format.decode(records, self._meta, fields, lambda row: f"{self.where}: row {first + row}")
        promised = self.index.offsets[first : last + 1]
        if not np.array_equal(promised - promised[0], rows.offsets):
            raise DataError(
                f"{self.where}: rows {first} .. {last - 1} are not as many, or not as long, as the index says; the "
                "file was changed, restore it or index it again"
            )
        try:
            tokens = cast_tokens(rows.tokens, rows.offsets, self._schema.token_dtype, first)
        except SchemaError as e:
            raise DataError(f"{self.where}: {e}") from None
        return RowBatch(tokens=tokens, offsets=rows.offsets, fields=rows.fields)

    def _read(self, block: int) -> bytes:
        start, stop = self.index.arrays["block_starts"][block : block + 2].tolist()
        try:
            with open_regular(self._path) as f:
                f.seek(start)
                data = f.read(stop - start)
        except OSError as e:
            raise storage_error(e, f"can't read {self._path}") from e
        if len(data) != stop - start:
            raise DataError(f"{self.where}: ends before byte {stop}; the shard was cut, restore it")
        how = _DECOMPRESSED.get(self._path.suffix)
        if how is None:
            return data
        rows = int(self.block_rows[block + 1] - self.block_rows[block])
        marks = sum(_MAX_MARKS + len(name) for name in ("tokens", *self._schema.fields))
        limit = MAX_ROW_BYTES if rows == 1 else _MAX_BLOCK_BYTES + rows * marks
        return decompress_up_to(data, how, limit, f"{self.where}: bytes {start} .. {stop}")


_recent: Recent[RowBatch] = Recent()


def first_byte(path: Path) -> int:
    """Where text begins: after a byte order mark. Raises DataError for UTF-16 and UTF-32."""
    try:
        with open_regular(path) as f:
            head = f.read(4)
    except OSError as e:
        raise storage_error(e, f"can't read {path}") from e
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or head == b"\0\0\xfe\xff":
        raise DataError(f"{path}: text in UTF-16 or UTF-32; write it as UTF-8 ('iconv -f utf-16 -t utf-8')")
    return 3 if head[:3] == b"\xef\xbb\xbf" else 0


def refuse_compressed(folder: Folder, names: Sequence[str], suffixes: Sequence[str]) -> None:
    """Raise DataError for other people's files in compressed form, of which no row can be read alone."""
    endings = tuple(s + c for s in suffixes for c in (".gz", ".zst", ".bz2", ".xz"))
    for name in names:
        if name.endswith(endings):
            raise DataError(
                f"{folder.at(name)}: compressed, so that no row can be read alone; decompress it to open it as a "
                "corpus. If it holds text and not tokens, 'tokenyard tokenize' reads it as it is"
            )


def _place_by_line(path: Path, numbers: Sequence[int]) -> Place:
    return lambda row: f"{path}: line {numbers[row]}"


def _text_of(lines: pa.Array) -> memoryview:
    """All texts of an array one after another."""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32 if lines.type == pa.string() else np.int64, len(lines) + 1)
    return memoryview(data)[int(ends[0]) : int(ends[-1])]


def _compressed(how: str, data: bytes | memoryview) -> bytes | memoryview:
    # On digits zstd 1 is smaller and quicker than 3; gzip 6 is 8 percent smaller than 2 and takes seven times as long.
    if how == "gzip":
        return gzip.compress(data, 2, mtime=0)
    return zstandard.ZstdCompressor(level=1).compress(data) if how == "zstd" else data
