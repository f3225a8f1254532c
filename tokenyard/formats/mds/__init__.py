"""MDS: what mosaicml-streaming 0.13 reads and writes. StreamingDataset opens our corpora, and we open its datasets.

Ours: ``<stem>.mds`` or, compressed, ``<stem>.mds.zstd`` and so on, and ``index.json``. Tokens are the column
``tokens``. The codec is in ``encoding`` and ``decode``; what encodings stand for, in ``columns``.

Other people's: the tokens' column is the one named by the option ``tokens``, else ``tokens``, else ``input_ids``, else
the only integer array (with ``token_dtype``: or the only ``bytes``). Every other column is a field, unless ``fields``
leaves it out. Numbers spelled as text (``str_int`` ...) and JSON are text, exactly as they lie there; images are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tokenyard.errors import ConfigError, DataError
from tokenyard.formats.base import (
    Discovered,
    Format,
    FormatOptions,
    OnBad,
    ReadOptions,
    ShardReader,
    ShardSource,
    WrittenShard,
    options_of,
)
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.mds import decode as mds_decode
from tokenyard.formats.mds import index as mds_index
from tokenyard.formats.mds.columns import MAX_SHARD_BYTES, MdsColumn, columns_of, valid_name
from tokenyard.formats.mds.encoding import encode
from tokenyard.formats.mds.index import INDEX_NAME, MdsShard
from tokenyard.formats.mds.selection import Selection, schema_of, select
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.compression import LEVELS, check_level, compress, decompress
from tokenyard.formats.shared.promises import promised_size, promised_text
from tokenyard.formats.shared.runs_reader import RunsReader, field_arrays
from tokenyard.manifest import FileInfo, Manifest, ShardInfo
from tokenyard.rows import Offsets, RowBatch, offsets_of
from tokenyard.schema import Schema
from tokenyard.storage import Folder, RawFile


class MdsOptions(FormatOptions):
    """Options of the MDS writer."""

    compression: Literal["none", "zstd", "gz", "br", "bz2", "snappy"] = Field(
        default="none", description="How whole shards are compressed; raw ones are read at memory speed."
    )
    compression_level: int | None = Field(
        default=None, description="Its level; when not given, 3 for zstd, 1 for gz, 5 for br, 9 for bz2."
    )

    def model_post_init(self, _: Any) -> None:
        """The level is one that the compression has."""
        check_level(self.compression, self.compression_level)


class Mds(Format):
    """See the module."""

    name = "mds"
    suffix = ".mds"
    summary = "StreamingDataset's shards; read by mosaicml-streaming and llm-foundry"
    Options = MdsOptions
    index_name = INDEX_NAME
    #: Offsets have 32 bits; the rest is for the columns' JSON.
    max_file_bytes = MAX_SHARD_BYTES - (1 << 20)

    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        """One file, raw or compressed."""
        chosen = options_of(self.name, MdsOptions, options)
        compression = None if chosen.compression == "none" else chosen.compression
        config = mds_index.columns_config(columns_of(schema), compression)
        header = json.dumps(config, sort_keys=True).encode()
        encoded = encode(batches, schema, header, str(folder.at(stem + ".mds")))
        if compression is None:
            with folder.publish(stem + ".mds") as file:
                for piece in encoded.pieces:
                    file.write(piece)
            return WrittenShard(files=(file.info,), index=ShardIndex(arrays=encoded.index))
        raw = np.concatenate(list(encoded.pieces))
        with folder.publish(f"{stem}.mds.{compression}") as file:
            file.write(compress(raw, compression, chosen.compression_level))
        meta = {"compression": compression, "raw_bytes": encoded.num_bytes}
        return WrittenShard(files=(file.info,), index=ShardIndex(arrays=encoded.index), meta=meta)

    def finish(self, folder: Folder, manifest: Manifest) -> tuple[FileInfo, ...]:
        """``index.json``, which StreamingDataset begins with."""
        own = tuple(columns_of(manifest.schema))
        entries = [_entry(s, _columns_of_others(s) or own) for s in manifest.shards]
        return (folder.write(INDEX_NAME, mds_index.to_json(entries)),)

    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        """Maps nothing yet."""
        file, where = shard.files[0], str(folder.at(shard.name))
        if shard.meta.get("compression"):
            promised_text(shard.meta, "compression", LEVELS, where)
            promised_size(shard.meta, "raw_bytes", MAX_SHARD_BYTES, where)
            packed = folder.raw(file.name, file.bytes)
            decode = partial(_decode, folder, file, shard.meta, index, schema)
            return RunsReader(where, index, schema, packed=packed, decode=decode)
        raw = folder.raw(file.name, file.bytes)
        table = mds_decode.table_bytes(index.num_rows)
        check = partial(_check_raw, index, schema, where)
        return RunsReader(where, index, schema, raw=raw, check=check, check_bytes=table)

    def is_index(self, data: bytes, where: str) -> bool:
        """Whether StreamingDataset would take it for its index."""
        return mds_index.from_json(data, where) is not None

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        """A folder with StreamingDataset's ``index.json``."""
        return self._discover(folder, names, options, None)

    def discover_readable(
        self, folder: Folder, names: Sequence[str], options: ReadOptions, on_bad: OnBad
    ) -> Discovered | None:
        """As ``discover``, without the shards that are missing or cut, which are told."""
        return self._discover(folder, names, options, on_bad)

    def _discover(
        self, folder: Folder, names: Sequence[str], options: ReadOptions, on_bad: OnBad | None
    ) -> Discovered | None:
        found = mds_index.find(folder, names)
        if found is None:
            return None
        where = str(folder.at(INDEX_NAME))
        if options.split is not None:
            raise ConfigError(f"{where}: 'split' cuts one long array, but an MDS sample is a row; leave it out")
        if not found:
            raise DataError(f"{where}: names no shards, so nothing says which columns there are; it is empty")
        selection = select(found, options, where)
        shards = []
        for shard in found:
            try:
                shards.append(_source(folder, shard, selection))
            except DataError as e:
                if on_bad is None:
                    raise
                on_bad(shard.raw_name, e)
        schema = schema_of(selection, found, lambda column: _first_dtype(folder, shards, column), where)
        return Discovered(schema=schema, shards=tuple(shards))

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        """Where each column's values lie, from the samples' headers."""
        where = str(folder.at(shard.files[0].name))
        meta = shard.meta
        buffer = _load(folder, shard.files[0], meta, meta["samples"])
        bounds = mds_decode.sample_bounds(buffer, meta["samples"], where)
        columns = [MdsColumn(name=n, encoding=e, size=s) for n, e, s in meta["columns"]]
        found = mds_decode.column_runs(buffer, bounds, columns, where)
        arrays: dict[str, Offsets] = {}
        dtypes: dict[str, str] = {}
        for column in columns:
            if column.name not in (meta["tokens"], *meta["fields"]):
                continue
            bare = meta["token_dtype"] if column.name == meta["tokens"] else None
            values = mds_decode.values(buffer, column, *found[column.name], bare, where)
            if column.name == meta["tokens"]:
                _check_dtype(values.dtype, schema.token_dtype, f"{where}: column {column.name!r}")
                dtypes["tokens"] = values.dtype.str
                arrays |= {"starts": values.starts, "offsets": offsets_of(values.lengths)}
                continue
            type = schema.fields[column.name]
            _check_dtype(values.dtype, type.dtype.name, f"{where}: column {column.name!r}")
            valid = buffer[found[valid_name(column.name)][0]] != 0 if meta["fields"][column.name] else None
            arrays |= field_arrays(column.name, values.starts, values.lengths if type.has_offsets else None, valid)
        return ShardIndex(arrays=arrays, meta={"dtypes": dtypes})


FORMAT = Mds()


def _source(folder: Folder, shard: MdsShard, selection: Selection) -> ShardSource:
    """The raw file when it is there, else the compressed one, with all that reading takes."""
    if not folder.asks_cheaply:
        # One of the two forms is there, and its size is what the index says, or reading tells.
        raw = shard.zip_name is None
        name, size = (shard.raw_name, shard.raw_bytes) if raw else (shard.zip_name, shard.zip_bytes)
        assert name is not None
        assert size is not None
        return _described(shard, selection, FileInfo(name=name, bytes=size), raw)
    raw = folder.exists(shard.raw_name)
    name, size = (shard.raw_name, shard.raw_bytes) if raw else (shard.zip_name, shard.zip_bytes)
    if name is None or size is None or not folder.exists(name):
        raise DataError(
            f"{folder.at(INDEX_NAME)}: {shard.raw_name} is missing"
            + (f", and so is {shard.zip_name}" if shard.zip_name else "")
            + "; copy the dataset again"
        )
    if (found := folder.size(name)) != size:
        way = f"delete it, {shard.zip_name} holds the same rows" if raw and shard.zip_name else "restore it"
        raise DataError(f"{folder.at(name)}: {found} bytes, {INDEX_NAME} says {size}; it was cut or replaced, {way}")
    return _described(shard, selection, FileInfo(name=name, bytes=size), raw)


def _described(shard: MdsShard, selection: Selection, file: FileInfo, raw: bool) -> ShardSource:
    return ShardSource(
        files=(file,),
        meta={
            "samples": shard.samples,
            "columns": [[c.name, c.encoding, c.size] for c in shard.columns],
            "tokens": selection.tokens,
            "token_dtype": selection.token_dtype,
            "fields": dict(selection.fields),
            "compression": None if raw else shard.compression,
            "raw_bytes": shard.raw_bytes,
        },
    )


def _first_dtype(folder: Folder, shards: Sequence[ShardSource], name: str) -> np.dtype[Any]:
    """The dtype of a column whose arrays say it themselves, from the first sample."""
    for shard in shards:
        if shard.meta["samples"]:
            where = str(folder.at(shard.files[0].name))
            buffer = _load(folder, shard.files[0], shard.meta, shard.meta["samples"])
            bounds = mds_decode.sample_bounds(buffer, shard.meta["samples"], where)[:2]
            columns = {n: MdsColumn(name=n, encoding=e, size=s) for n, e, s in shard.meta["columns"]}
            found = mds_decode.column_runs(buffer, bounds, list(columns.values()), where)
            return mds_decode.values(buffer, columns[name], *found[name], None, where).dtype
    return np.dtype(np.int64)


def _load(folder: Folder, file: FileInfo, meta: Mapping[str, Any], samples: int) -> Bytes:
    where = str(folder.at(file.name))
    if meta.get("compression"):
        buffer = decompress(
            folder.raw(file.name, file.bytes).read(0, file.bytes), meta["compression"], meta["raw_bytes"], where
        )
    else:
        buffer = folder.map(file.name, file.bytes)
    mds_decode.check_samples(buffer, samples, where)
    return buffer


def _decode(folder: Folder, file: FileInfo, meta: Mapping[str, Any], index: ShardIndex, schema: Schema) -> Bytes:
    buffer = _load(folder, file, meta, index.num_rows)
    _check_index(buffer, len(buffer), index, schema, str(folder.at(file.name)))
    return buffer


def _check_raw(index: ShardIndex, schema: Schema, where: str, raw: RawFile) -> None:
    table = raw.read(0, min(mds_decode.table_bytes(index.num_rows), raw.num_bytes))
    _check_index(table, raw.num_bytes, index, schema, where)


def _check_index(table: Bytes, num_bytes: int, index: ShardIndex, schema: Schema, where: str) -> None:
    """Hold a shard's own table of samples to the index: a shard of the same size in its place is refused."""
    bounds = mds_decode.sample_bounds(table, index.num_rows, where, num_bytes)
    itemsize = np.dtype(index.meta.get("dtypes", {}).get("tokens", schema.token_dtype)).itemsize
    is_last = not schema.fields and not index.meta  # of others, columns may be left out
    mds_decode.check_places(bounds, index.arrays["starts"], np.diff(index.offsets) * itemsize, is_last, where)


def _check_dtype(found: np.dtype[Any], declared: str, where: str) -> None:
    if not np.can_cast(found, np.dtype(declared), "safe"):
        raise DataError(
            f"{where}: {found.name}, the first shard has {declared}; a corpus has one schema, write the column with a "
            "fixed dtype"
        )


def _columns_of_others(shard: ShardInfo) -> tuple[MdsColumn, ...]:
    """The columns of a shard that others wrote; none where it is ours."""
    return tuple(MdsColumn(name=n, encoding=e, size=s) for n, e, s in shard.meta.get("columns", ()))


def _entry(shard: ShardInfo, columns: tuple[MdsColumn, ...]) -> MdsShard:
    file, compression = shard.files[0], shard.meta.get("compression")
    if compression is None:
        return MdsShard(samples=shard.num_rows, columns=columns, raw_name=file.name, raw_bytes=file.bytes)
    return MdsShard(
        samples=shard.num_rows,
        columns=columns,
        raw_name=file.name.removesuffix(f".{compression}"),
        raw_bytes=shard.meta["raw_bytes"],
        zip_name=file.name,
        zip_bytes=file.bytes,
        compression=compression,
    )
