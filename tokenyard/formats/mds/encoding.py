"""Makes the bytes of an MDS shard, many rows at once; the layout is that of mosaicml-streaming 0.13 (base/format/mds).

    u32 samples | u32[samples + 1] where each sample begins, and the end of the file | JSON of the columns | the samples

A sample is one u32 a column of varying size, its bytes, then the columns' bytes in order of their names. An array
begins with a byte ``1 << 2 | c`` and its length in 1 << c bytes. The library refuses to write arrays of no items; ours
have the length 0, which it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats import runs
from tokenyard.formats.mds.columns import MAX_SHARD_BYTES, MdsColumn, columns_of
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.blocks import cut_batches
from tokenyard.formats.shared.runs_reader import field_arrays
from tokenyard.rows import Array, Offsets, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A shard: its size, its bytes in pieces (to be taken once), and the arrays of its index."""

    num_bytes: int
    pieces: Iterator[Bytes]
    index: Mapping[str, Offsets]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What a column holds of one batch: its values flat, and each row's items (None: one)."""

    values: Array
    lengths: Offsets | None


def encode(batches: Sequence[RowBatch], schema: Schema, config: bytes, where: str) -> Encoded:
    """Encode a shard. ``config`` is the JSON of the columns. Raises DataError past 4 GiB."""
    batches = list(cut_batches(batches))
    columns = columns_of(schema)
    parts = [[_part(batch, column, schema) for batch in batches] for column in columns]
    num_rows = sum(len(b) for b in batches)
    lengths = [None if c.size is not None else _lengths(p) for c, p in zip(columns, parts, strict=True)]
    heads = [_head_sizes(n) if c.is_array and n is not None else None for c, n in zip(columns, lengths, strict=True)]
    data = [_data_sizes(c, n, num_rows) for c, n in zip(columns, lengths, strict=True)]
    sizes = [d if h is None else h + d for h, d in zip(heads, data, strict=True)]
    varying = np.stack([s for s, c in zip(sizes, columns, strict=True) if c.size is None], axis=1)
    begin = 4 * (num_rows + 2) + len(config)
    bounds = begin + offsets_of(np.sum(sizes, axis=0) + 4 * varying.shape[1])
    if bounds[-1] > MAX_SHARD_BYTES:
        raise DataError(
            f"{where}: {num_rows} rows take {bounds[-1]} bytes, an MDS shard holds {MAX_SHARD_BYTES}; use a smaller "
            "shard_bytes"
        )

    def pieces() -> Iterator[Bytes]:
        yield np.frombuffer(np.uint32(num_rows).tobytes() + bounds.astype("<u4").tobytes() + config, np.uint8)
        row = 0
        for i, batch in enumerate(batches):
            rows = slice(row, row + len(batch))
            row_parts = [(varying[rows].astype("<u4"), np.full(len(batch), 4 * varying.shape[1]))]
            for column_parts, n, head, size in zip(parts, lengths, heads, data, strict=True):
                if head is not None and n is not None:
                    row_parts.append((_heads(n[rows], head[rows]), head[rows]))
                row_parts.append((column_parts[i].values, size[rows]))
            yield runs.interleave(row_parts)
            row += len(batch)

    index: dict[str, Offsets] = {}
    position = bounds[:-1] + 4 * varying.shape[1]
    for column, n, head, size in zip(columns, lengths, heads, sizes, strict=True):
        index |= _index_of(column.name, position if head is None else position + head, n)
        position = position + size
    for name, type in schema.fields.items():
        index |= _nulls(name, type, batches)
    return Encoded(num_bytes=int(bounds[-1]), pieces=pieces(), index=index)


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


def _data_sizes(column: MdsColumn, lengths: Offsets | None, num_rows: int) -> Offsets:
    if lengths is None:
        return np.full(num_rows, column.size, np.int64)
    return lengths * (column.dtype.itemsize if column.dtype else 1)


def _head_sizes(lengths: Offsets) -> Offsets:
    return np.where(lengths < 1 << 8, 2, np.where(lengths < 1 << 16, 3, 5)).astype(np.int64)


def _heads(lengths: Offsets, sizes: Offsets) -> Bytes:
    """The shapes of one-dimensional arrays, flat."""
    lines = np.empty((len(lengths), 5), np.uint8)
    lines[:, 0] = 1 << 2 | np.searchsorted([2, 3, 5], sizes)
    lines[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(len(lengths), 4)
    return lines[np.arange(5) < sizes[:, None]]


def _index_of(name: str, starts: Offsets, lengths: Offsets | None) -> dict[str, Offsets]:
    if name == "tokens":
        assert lengths is not None
        return {"starts": starts, "offsets": offsets_of(lengths)}
    return {} if name.endswith(".valid") else field_arrays(name, starts, lengths, None)


def _nulls(name: str, type: FieldType, batches: Sequence[RowBatch]) -> dict[str, Offsets]:
    if not type.nullable:
        return {}
    valid = np.concatenate([np.ones(len(b), bool) if (v := b.fields[name].valid) is None else v for b in batches])
    return {} if valid.all() else {f"field:{name}:null": np.flatnonzero(~valid)}
