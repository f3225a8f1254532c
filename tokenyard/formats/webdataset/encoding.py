"""Rows as members of a tar, many rows at once; what goes into which member is told in ``webdataset``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tokenyard.errors import SchemaError
from tokenyard.formats import runs
from tokenyard.formats.npy.header import write_header, write_list_headers
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.digits import decimal
from tokenyard.formats.shared.runs_reader import field_arrays
from tokenyard.formats.webdataset import tar
from tokenyard.rows import Array, Column, Offsets, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema

#: Digits of a row's number inside its shard, unless there are more rows.
_ROW_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """The members of one field, or of the tokens: their suffix, and what was written so far."""

    type: FieldType
    suffix: bytes
    starts: list[Offsets] = field(default_factory=list)
    lengths: list[Offsets] = field(default_factory=list)
    valid: list[Array] = field(default_factory=list)


class TarEncoder:
    """Encodes the rows of one shard in order. Raises SchemaError for names and rows that a tar can't hold."""

    def __init__(self, schema: Schema, stem: str, num_rows: int) -> None:
        self._prefix, self._width = _digits(stem), _row_width(num_rows)
        self._row = 0
        #: Bytes of members so far.
        self.num_bytes = 0
        types = {"tokens": FieldType(schema.token_dtype, is_list=True)} | {
            n: schema.fields[n] for n in sorted(schema.fields)
        }
        self._kinds = {n: _Kind(type=t, suffix=f".{n}.{_extension(t)}".encode()) for n, t in types.items()}
        for name, kind in self._kinds.items():
            if (size := len(self._prefix) + self._width + len(kind.suffix)) > tar.MAX_NAME:
                raise SchemaError(
                    f"field {name!r}: the name of its members would have {size} characters, a tar's have "
                    f"{tar.MAX_NAME}; choose a shorter one"
                )

    def encode(self, batch: RowBatch) -> Bytes:
        """The members of the next rows."""
        rows = np.arange(self._row, self._row + len(batch), dtype=np.int64)
        prefix = np.broadcast_to(np.frombuffer(self._prefix, np.uint8), (len(batch), len(self._prefix)))
        keys = np.concatenate([prefix, decimal(rows, self._width)], axis=1)
        columns = {name: _Column(name, kind, batch, self._row) for name, kind in self._kinds.items()}
        bounds = offsets_of(np.sum([c.taken for c in columns.values()], axis=0))
        members = runs.interleave([part for column in columns.values() for part in column.parts(keys)])
        position = self.num_bytes + bounds[:-1]
        for kind, column in zip(self._kinds.values(), columns.values(), strict=True):
            kind.starts.append(np.where(column.valid, position + column.head_bytes, 0))
            kind.lengths.append(column.lengths)
            kind.valid.append(column.valid)
            position = position + column.taken
        self._row += len(batch)
        self.num_bytes += len(members)
        return members

    def index(self) -> dict[str, Offsets]:
        """The arrays of the shard's index."""
        arrays: dict[str, Offsets] = {}
        for name, kind in self._kinds.items():
            starts, lengths = np.concatenate(kind.starts), np.concatenate(kind.lengths)
            if name == "tokens":
                arrays |= {"starts": starts, "offsets": offsets_of(lengths)}
            else:
                valid = np.concatenate(kind.valid)
                arrays |= field_arrays(name, starts, lengths if kind.type.has_offsets else None, valid)
        return arrays


class _Column:
    """One field of a batch: each row's items, the bytes of its member, and what the tar takes for it (0 for a null)."""

    def __init__(self, name: str, kind: _Kind, batch: RowBatch, first_row: int) -> None:
        type = kind.type
        dtype = type.dtype.newbyteorder("<")
        column = (
            Column(type=type, values=batch.tokens, offsets=batch.offsets) if name == "tokens" else batch.fields[name]
        )
        values, offsets = column.values, column.offsets
        self.valid = np.ones(len(batch), bool) if column.valid is None else column.valid
        self.lengths = np.where(self.valid, 1, 0) if offsets is None else np.diff(offsets)
        if offsets is None and column.valid is not None:
            values = values[column.valid]
        self._values = values.astype(dtype, copy=False)
        self._suffix = kind.suffix
        self._heads = None if type.is_binary else _heads(dtype, self.lengths[self.valid] if type.is_list else None)
        #: Bytes before a member's items.
        self.head_bytes = tar.BLOCK + (0 if self._heads is None else self._heads.shape[1])
        self._data = self.lengths * dtype.itemsize
        self._sizes = self._data + self.head_bytes - tar.BLOCK
        if len(batch) and int(self._sizes.max()) > tar.MAX_MEMBER_BYTES:
            row = int(np.argmax(self._sizes))
            raise SchemaError(
                f"row {first_row + row} of the shard: {self._sizes[row]} bytes of {name}, a member of a tar holds "
                f"{tar.MAX_MEMBER_BYTES}; cut the row, or choose another format"
            )
        self.taken = np.where(self.valid, tar.BLOCK + tar.padded(self._sizes), 0)

    def parts(self, keys: Bytes) -> list[tuple[Array, Offsets]]:
        """What the members are made of: headers of the tar and of arrays, the items, and what fills the last block."""
        suffix = np.frombuffer(self._suffix, np.uint8)
        names = np.concatenate([keys, np.broadcast_to(suffix, (len(keys), len(suffix)))], axis=1)[self.valid]
        parts: list[tuple[Array, Offsets]] = [(tar.headers(names, self._sizes[self.valid]), self._if_valid(tar.BLOCK))]
        if self._heads is not None:
            heads = np.broadcast_to(self._heads, (int(self.valid.sum()), self._heads.shape[1]))
            parts.append((heads, self._if_valid(heads.shape[1])))
        filling = self.taken - self._if_valid(self.head_bytes) - self._data
        return [*parts, (self._values, self._data), (np.zeros(int(filling.sum()), np.uint8), filling)]

    def _if_valid(self, num_bytes: int) -> Offsets:
        return np.where(self.valid, num_bytes, 0).astype(np.int64)


def first_key(stem: str, num_rows: int) -> bytes:
    """The key of the first row of a shard."""
    return _digits(stem) + b"0" * _row_width(num_rows)


def _digits(stem: str) -> bytes:
    return "".join(re.findall(r"[0-9]+", stem)).encode()


def _row_width(num_rows: int) -> int:
    return max(_ROW_DIGITS, len(str(max(num_rows - 1, 0))))


def _extension(type: FieldType) -> str:
    return {"string": "txt", "bytes": "bin"}.get(type.name, "npy")


def _heads(dtype: np.dtype[np.generic], lengths: Offsets | None) -> Bytes:
    """The .npy headers of arrays of these lengths, or the one of single numbers; all are equally long."""
    if lengths is None:
        return np.frombuffer(write_header(dtype, ()), np.uint8)[None]
    return write_list_headers(dtype, lengths)
