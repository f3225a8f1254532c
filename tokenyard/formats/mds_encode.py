"""Writes the bytes of an MDS shard, all rows at once; the layout is that of mosaicml-streaming 0.13 (base/format/mds).

    u32 samples | u32[samples + 1] where each sample begins, and the end of the file | JSON of the columns | the samples

A sample is one u32 a column of varying size, its bytes, then the columns' bytes in order of their names. An array
begins with a byte ``1 << 2 | c`` and its length in 1 << c bytes. The library refuses to write arrays of no items; ours
have the length 0, which it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats import runs
from tokenyard.formats.mds_columns import MAX_SHARD_BYTES, MdsColumn, columns_of
from tokenyard.formats.runs import Bytes
from tokenyard.formats.runs_reader import field_arrays
from tokenyard.rows import Array, Offsets, RowBatch
from tokenyard.schema import FieldType, Schema


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What a column holds of one batch: its values flat, each row's items, and the validity."""

    values: Array
    lengths: Offsets | None


def encode(batches: Sequence[RowBatch], schema: Schema, config: bytes, where: str) -> tuple[Bytes, dict[str, Offsets]]:
    """A shard, and the arrays of its index. ``config`` is the JSON of the columns."""
    columns = columns_of(schema)
    parts = [[_part(batch, column, schema) for batch in batches] for column in columns]
    num_rows = sum(len(b) for b in batches)
    lengths = [None if c.size is not None else _lengths(p) for c, p in zip(columns, parts, strict=True)]
    heads = [_head_sizes(n) if c.is_array and n is not None else 0 for c, n in zip(columns, lengths, strict=True)]
    sizes = [
        np.full(num_rows, c.size, np.int64) if n is None else head + n * (c.dtype.itemsize if c.dtype else 1)
        for c, n, head in zip(columns, lengths, heads, strict=True)
    ]
    varying = [s for s, c in zip(sizes, columns, strict=True) if c.size is None]
    begin = 4 * (num_rows + 2) + len(config)
    bounds = np.concatenate([[begin], begin + np.cumsum(sum(sizes) + 4 * len(varying))]).astype(np.int64)
    if bounds[-1] > MAX_SHARD_BYTES:
        raise DataError(
            f"{where}: {num_rows} rows take {bounds[-1]} bytes, an MDS shard holds {MAX_SHARD_BYTES}; use a smaller "
            "shard_bytes"
        )
    out = np.empty(int(bounds[-1]), np.uint8)
    out[:begin] = np.frombuffer(np.uint32(num_rows).tobytes() + bounds.astype("<u4").tobytes() + config, np.uint8)
    runs.put_equal(out, bounds[:-1], np.stack(varying, axis=1).astype("<u4"))
    position = bounds[:-1] + 4 * len(varying)
    index: dict[str, Offsets] = {}
    for column, column_parts, n, head, size in zip(columns, parts, lengths, heads, sizes, strict=True):
        starts = position + head
        if column.is_array and n is not None:
            _put_heads(out, position, n)
        _put_parts(out, starts, size - head, column_parts)
        index |= _index_of(column.name, starts, n)
        position = position + size
    for name, type in schema.fields.items():
        index |= _nulls(name, type, batches)
    return out, index


def _part(batch: RowBatch, column: MdsColumn, schema: Schema) -> _Part:
    if column.name == "tokens":
        return _Part(values=batch.tokens.astype(column.dtype, copy=False), lengths=batch.lengths)
    if column.name not in schema.fields:
        valid = batch.fields[column.name.removesuffix(".valid")].valid
        return _Part(values=np.ones(len(batch), np.uint8) if valid is None else valid.view(np.uint8), lengths=None)
    field = batch.fields[column.name]
    values = field.values.astype(column.dtype, copy=False) if column.dtype else field.values
    return _Part(values=values, lengths=None if field.offsets is None else np.diff(field.offsets))


def _lengths(parts: Sequence[_Part]) -> Offsets:
    return np.concatenate([np.empty(0, np.int64), *[p.lengths for p in parts if p.lengths is not None]])


def _head_sizes(lengths: Offsets) -> Offsets:
    return np.where(lengths < 1 << 8, 2, np.where(lengths < 1 << 16, 3, 5)).astype(np.int64)


def _put_heads(out: Bytes, starts: Offsets, lengths: Offsets) -> None:
    """Write the shapes of one-dimensional arrays."""
    sizes = _head_sizes(lengths)
    for code, width in enumerate((1, 2, 4)):
        some = np.flatnonzero(sizes == 1 + width)
        lines = np.empty((len(some), 1 + width), np.uint8)
        lines[:, 0] = 1 << 2 | code
        lines[:, 1:] = lengths[some].astype(f"<u{width}").view(np.uint8).reshape(len(some), width)
        runs.put_equal(out, starts[some], lines)


def _put_parts(out: Bytes, starts: Offsets, sizes: Offsets, parts: Sequence[_Part]) -> None:
    row = 0
    for part in parts:
        end = row + (len(part.values) if part.lengths is None else len(part.lengths))
        runs.put(out, starts[row:end], sizes[row:end], part.values)
        row = end


def _index_of(name: str, starts: Offsets, lengths: Offsets | None) -> dict[str, Offsets]:
    if name == "tokens":
        assert lengths is not None
        return {"starts": starts, "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}
    return {} if name.endswith(".valid") else field_arrays(name, starts, lengths, None)


def _nulls(name: str, type: FieldType, batches: Sequence[RowBatch]) -> dict[str, Offsets]:
    if not type.nullable:
        return {}
    valid = np.concatenate([np.ones(len(b), bool) if (v := b.fields[name].valid) is None else v for b in batches])
    return {} if valid.all() else {f"field:{name}:null": np.flatnonzero(~valid)}
