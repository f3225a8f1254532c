"""Parquet: ``tokens: list<uint16 | uint32 | ...>`` and natural columns, for DuckDB, pandas and ``datasets``.

A row group is a storage block: at most ``row_group_rows`` rows and ``row_group_bytes``. Tokens are BYTE_STREAM_SPLIT
(the high bytes of ids compress well apart from the low ones) or PLAIN, whichever a trial on the shard finds smaller, or
dictionary-coded where nothing compresses them. Pages carry checksums, which are verified on reading. Equal rows and
options give equal bytes under one version of pyarrow.

Other people's files: a column of lists of any integers holds the tokens, the others become fields. Column-chunk
metadata is never asked of pyarrow, whose accessors end the process on some damaged files; see ``footer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from tokenyard.errors import DataError, SchemaError
from tokenyard.formats.base import (
    Discovered,
    Format,
    FormatOptions,
    ReadOptions,
    ShardReader,
    ShardSource,
    WrittenShard,
    options_of,
)
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.parquet.footer import check_declared, read_footer
from tokenyard.formats.parquet.reader import Footer, ParquetReader, decode, object_at, place_of, reading
from tokenyard.formats.parquet.token_encoding import choose_token_encoding
from tokenyard.formats.shared.arrow import arrow_schema, field_type, is_list, numpy_dtype, record_batch, tokens_of
from tokenyard.formats.shared.blocks import BLOCK_ROWS, cut_blocks, row_bytes
from tokenyard.formats.shared.foreign import (
    check_ids,
    choose_fields,
    find_tokens,
    first_twice,
    refuse_options,
    same_fields,
)
from tokenyard.manifest import FileInfo, ShardInfo
from tokenyard.rows import Array, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder

_SUFFIXES = (".parquet", ".pq")
#: What conversion decodes at a time; row groups of other people's files can be larger than memory.
_PIECE_BYTES = 32 << 20


class ParquetOptions(FormatOptions):
    """How shards are laid out and compressed."""

    compression: Literal["zstd", "lz4", "snappy", "none"] = Field(default="zstd", description="The codec of all pages.")
    compression_level: int | None = Field(
        default=None, ge=1, le=22, description="zstd's level, 1 by default; other codecs have none."
    )
    row_group_rows: int = Field(default=BLOCK_ROWS, ge=1, description="Rows in a row group, at most.")
    row_group_bytes: int = Field(
        default=16 << 20, ge=1, description="Bytes of tokens and fields in a row group of more than one row, at most."
    )

    def model_post_init(self, _: Any) -> None:
        """Only zstd has levels."""
        if self.compression_level is not None and self.compression != "zstd":
            raise ValueError(f"compression_level belongs to zstd, {self.compression} has none")


class Parquet(Format):
    """See the module."""

    name = "parquet"
    suffix = ".parquet"
    summary = "columns that DuckDB, pandas and datasets query; small, decoded a row group at a time"
    Options = ParquetOptions

    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        """One file."""
        chosen = options_of(self.name, ParquetOptions, options)
        rows = RowBatch.concat(batches)
        block_rows = cut_blocks(row_bytes(rows), chosen.row_group_rows, chosen.row_group_bytes)
        layout = arrow_schema(schema)
        with (
            folder.publish(stem + self.suffix) as file,
            pq.ParquetWriter(file, layout, **_layout(chosen, schema, rows.tokens)) as w,
        ):
            for start, stop in zip(block_rows[:-1].tolist(), block_rows[1:].tolist(), strict=True):
                w.write_batch(record_batch(rows.slice(start, stop), layout), row_group_size=stop - start)
        index = ShardIndex(arrays={"offsets": offsets_of(rows.lengths), "block_rows": block_rows})
        return WrittenShard(files=(file.info,), index=index)

    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        """Opens nothing yet."""
        return ParquetReader(folder, shard, index, schema)

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        """Any Parquet files, in folders too; each is a shard, and all have the same columns."""
        mine = [n for n in names if n.endswith(_SUFFIXES)]
        if not mine:
            return None
        refuse_options(folder, options, self.name)
        _refuse_tables(folder, names, options)
        found = [_foreign_schema(folder.at(n), options) for n in mine]
        tokens, first = found[0]
        for name, (column, schema) in zip(mine, found, strict=True):
            where = str(folder.at(name))
            if (column, schema.token_dtype) != (tokens, first.token_dtype):
                raise SchemaError(
                    f"{where}: tokens are {schema.token_dtype} in column {column!r}, in {mine[0]} {first.token_dtype} "
                    f"in column {tokens!r}; open the files apart"
                )
            same_fields(first.fields, schema.fields, where, mine[0])
        fields = {
            n: FieldType(t.name, t.is_list, any(s.fields[n].nullable for _, s in found))
            for n, t in first.fields.items()
        }
        shards = tuple(
            ShardSource(files=(FileInfo(name=n, bytes=folder.size(n)),), meta={"tokens": tokens}) for n in mine
        )
        return Discovered(schema=Schema(token_dtype=first.token_dtype, fields=fields), shards=shards)

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        """Decodes the tokens of each row group once; remembers which row groups have rows."""
        path, column = folder.at(shard.files[0].name), shard.meta["tokens"]
        lengths, block_rows, groups, piece_rows = [np.empty(0, np.int64)], [0], [], []
        footer = Footer(groups=read_footer(path))
        for group, declared in enumerate(footer.groups or ()):
            if not declared.num_rows:
                continue
            size = check_declared(path, group, declared, [column, *schema.fields])
            step = max(1, min(declared.num_rows, declared.num_rows * _PIECE_BYTES // max(size, 1)))
            found = 0
            for batch in decode(path, footer, group, [column], step):
                tokens, offsets = tokens_of(batch.column(column), place_of(path, group, found))
                check_ids(tokens, offsets, place_of(path, group, found))
                lengths.append(np.diff(offsets))
                found += len(batch)
            if found != declared.num_rows:
                raise DataError(
                    f"{path}: row group {group} holds {found} rows, its footer says {declared.num_rows}; "
                    "restore the file"
                )
            groups.append(group)
            block_rows.append(block_rows[-1] + found)
            piece_rows.append(step)
        arrays = {"block_rows": block_rows, "groups": groups, "piece_rows": piece_rows}
        found_arrays = {name: np.array(values, np.int64) for name, values in arrays.items()}
        return ShardIndex(arrays={"offsets": offsets_of(np.concatenate(lengths)), **found_arrays})


FORMAT = Parquet()


def _layout(options: ParquetOptions, schema: Schema, tokens: Array) -> dict[str, Any]:
    """The writer's settings. A column of lists is known to it by the path of its leaf."""
    leaves = [f"{n}.list.element" if t.is_list else n for n, t in sorted(schema.fields.items())]
    packs = options.compression != "none"
    # Levels of 3 and more are slower to write, and smaller on repetitive text alone.
    level = options.compression_level or 1 if options.compression == "zstd" else None
    encoding = choose_token_encoding(tokens, options.compression, level) if packs else None
    return {
        "compression": options.compression,
        "compression_level": level,
        "use_dictionary": leaves if packs else ["tokens.list.element", *leaves],
        "column_encoding": {"tokens.list.element": encoding} if encoding else None,
        "write_statistics": leaves,
        "write_page_checksum": True,
        "store_schema": False,
    }


def _foreign_schema(path: Path, options: ReadOptions) -> tuple[str, Schema]:
    """The column of the tokens, and the schema, from a footer."""
    remote = object_at(path)
    read_footer(path, remote)
    with reading(path, "the footer"), remote or pa.OSFile(str(path)) as source:
        layout = pq.ParquetFile(source, pre_buffer=False).schema_arrow
    names = layout.names
    if (twice := first_twice(names)) is not None:
        raise DataError(f"{path}: two columns are named {twice!r}; rename one")
    tokens = find_tokens(names, options, str(path))
    type = layout.field(tokens).type
    items = type.value_type if is_list(type) else pa.null()
    items = items.value_type if pa.types.is_dictionary(items) else items
    if not pa.types.is_integer(items):
        raise DataError(
            f"{path}: column {tokens!r} is {type}, tokens are lists of integers; name another column with the option "
            "'tokens', or write this one as integers"
        )
    types = {f.name: field_type(f.type, f.nullable) or str(f.type) for f in layout}
    fields = choose_fields(types, tokens, options, str(path))
    return tokens, Schema(token_dtype=numpy_dtype(items).name, fields=fields)


def _refuse_tables(folder: Folder, names: Sequence[str], options: ReadOptions) -> None:
    """Refuse folders whose files alone don't say what the table holds.

    A Delta log takes files out of the table; folders named ``key=value`` keep a column in their names, which is fine
    when somebody says which fields to keep.
    """
    if any(n.split("/")[-2:-1] == ["_delta_log"] for n in names):
        raise DataError(
            f"{folder.path}: a Delta table, whose log says which of its files and rows still count; export it to plain "
            "Parquet files first"
        )
    keys = sorted({part.split("=")[0] for n in names for part in n.split("/")[:-1] if "=" in part})
    if keys and options.fields is None:
        raise DataError(
            f"{folder.path}: partitioned by {', '.join(keys)}: folder names hold a column that would be lost. Name the "
            "fields to keep with the option 'fields' (an empty list keeps the tokens alone), or write the files "
            "unpartitioned"
        )
