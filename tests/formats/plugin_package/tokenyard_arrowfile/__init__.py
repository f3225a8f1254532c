"""A storage format in a package of its own: each shard one Arrow IPC file with one record batch.

``tokens`` is a list column; each field is a column of its own type. Uncompressed, tokens are read from a memory map.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from tokenyard.errors import DataError
from tokenyard.formats.base import (
    Discovered,
    Format,
    FormatOptions,
    ReadOptions,
    ShardReader,
    ShardSource,
    WrittenShard,
)
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.manifest import FileInfo, ShardInfo
from tokenyard.rows import Column, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder
from tokenyard_arrowfile.columns import field_type, from_arrow, to_arrow


class ArrowFileOptions(FormatOptions):
    """Options of the writer."""

    compression: Literal["none", "zstd"] = Field(default="none", description="How buffers are compressed.")


class ArrowFile(Format):
    """See the module."""

    name = "arrowfile"
    suffix = ".arrow"
    summary = "Arrow IPC files; read by anything that has Arrow"
    Options = ArrowFileOptions

    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        assert isinstance(options, ArrowFileOptions)
        rows = RowBatch.concat(batches)
        tokens = Column(type=FieldType(schema.token_dtype, is_list=True), values=rows.tokens, offsets=rows.offsets)
        columns = {"tokens": to_arrow(tokens), **{n: to_arrow(rows.fields[n]) for n in sorted(schema.fields)}}
        batch = pa.record_batch(columns)
        compression = None if options.compression == "none" else options.compression
        with folder.publish(stem + self.suffix) as file:
            sink = pa.PythonFile(file, "w")
            with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_batch(batch)
        return WrittenShard(files=(file.info,), index=ShardIndex(arrays={"offsets": rows.offsets}))

    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        return _Reader(folder, shard, index, schema)

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        mine = [n for n in names if n.endswith(self.suffix)]
        if not mine:
            return None
        column = options.tokens or "tokens"
        schemas = [_schema(folder, name, column, options.fields) for name in mine]
        if any(s != schemas[0] for s in schemas):
            raise DataError(f"{folder.path}: .arrow files with different columns; convert them apart")
        shards = [ShardSource(files=(FileInfo(name=n, bytes=folder.size(n)),), meta={"tokens": column}) for n in mine]
        return Discovered(schema=schemas[0], shards=tuple(shards))

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        file = shard.files[0]
        batch = _read(folder, file.name, file.bytes)
        tokens = from_arrow(batch[shard.meta["tokens"]], FieldType(schema.token_dtype, is_list=True))
        return ShardIndex(arrays={"offsets": tokens.offsets}, meta=shard.meta)


FORMAT = ArrowFile()


class _Reader(ShardReader):
    def __init__(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> None:
        super().__init__(str(folder.at(shard.name)), index)
        self._folder = folder
        self._file = shard.files[0]
        self._schema = schema
        self._tokens = index.meta.get("tokens", "tokens")

    def extents(self, block: int, field: str = "tokens") -> Extents:
        column, mapped = self._column(field)
        starts = column.offsets[:-1] * column.values.itemsize
        buffer = column.values.view(np.uint8)
        lengths = np.diff(column.offsets)
        return Extents(buffer=buffer, starts=starts, lengths=lengths, dtype=column.values.dtype, mapped=mapped)

    def rows(self, start: int, stop: int) -> RowBatch:
        tokens = self._column("tokens")[0].slice(start, stop)
        fields = {name: self._column(name)[0].slice(start, stop) for name in self._schema.fields}
        return RowBatch(tokens=tokens.values, offsets=tokens.offsets, fields=fields)

    def _column(self, field: str) -> tuple[Column, bool]:
        """A column, and whether its values lie in the file's map."""
        type = FieldType(self._schema.token_dtype, is_list=True) if field == "tokens" else self._schema.fields[field]
        file = self._folder.map(self._file.name, self._file.bytes)
        array = _parse(self.where, file)[self._tokens if field == "tokens" else field]
        column = from_arrow(array, type)
        return column, np.may_share_memory(column.values, file)


def _read(folder: Folder, name: str, size: int) -> pa.RecordBatch:
    return _parse(str(folder.at(name)), folder.map(name, size))


def _parse(where: str, file: np.ndarray) -> pa.RecordBatch:
    try:
        reader = pa.ipc.open_file(pa.py_buffer(file))
        if reader.num_record_batches != 1:
            raise DataError(f"{where}: {reader.num_record_batches} record batches, expected one")
        batch = reader.get_batch(0)
        batch.validate(full=True)
    except pa.ArrowException as e:
        raise DataError(f"{where}: no whole Arrow file ({e}); restore it") from None
    return batch


def _schema(folder: Folder, name: str, tokens: str, fields: Sequence[str] | None) -> Schema:
    where = folder.at(name)
    found = _read(folder, name, folder.size(name)).schema
    types = {column.name: field_type(column.type, str(where)) for column in found if column.name != tokens}
    if tokens not in found.names:
        raise DataError(f"{where}: no column {tokens!r} with tokens, it has {', '.join(found.names)}")
    kept = {n: FieldType(t.name, t.is_list, nullable=True) for n, t in types.items() if fields is None or n in fields}
    type = field_type(found.field(tokens).type, str(where))
    if not type.is_list or type.dtype.kind not in "iu":
        raise DataError(f"{where}: column {tokens!r} holds {type}, but tokens are lists of integers")
    return Schema(token_dtype=type.name, fields=kept)
