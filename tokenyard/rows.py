"""Rows in memory: the one model at which every reader, writer and digest meets.

A RowBatch keeps all tokens of its rows in one flat array and says by offsets where each row begins, as Arrow does.
Extra fields are Columns of the same shape, so nothing in a batch is a Python object per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import SchemaError
from tokenyard.schema import FieldType, Schema

Offsets = NDArray[np.int64]
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One extra field of k rows.

    ``values``: one item a row for scalars; all items flat for lists; raw bytes (uint8, UTF-8 for text) for text and bytes.
    ``offsets``: int64[k + 1] into ``values`` where rows have lengths of their own, else None.
    ``valid``: bool[k], or None when no row is null. A null row is zero, or of no length.
    """

    type: FieldType
    values: Array
    offsets: Offsets | None = None
    valid: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.values.nbytes)

    def value(self, i: int) -> Any:
        """Row i as a Python value: None, a number, an array, str or bytes."""
        if self.valid is not None and not self.valid[i]:
            return None
        if self.offsets is None:
            return self.values[i].item()
        item = self.values[self.offsets[i] : self.offsets[i + 1]]
        if not self.type.is_binary:
            return item
        return item.tobytes().decode() if self.type.name == "string" else item.tobytes()

    def slice(self, start: int, stop: int) -> Column:
        """Rows start .. stop, sharing memory."""
        valid = None if self.valid is None else self.valid[start:stop]
        if self.offsets is None:
            return Column(type=self.type, values=self.values[start:stop], valid=valid)
        values, offsets = _slice(self.values, self.offsets, start, stop)
        return Column(type=self.type, values=values, offsets=offsets, valid=valid)

    @classmethod
    def concat(cls, columns: Sequence[Column]) -> Column:
        """The rows of all columns one after another."""
        first = columns[0]
        if len(columns) == 1:
            return first
        valid = None
        if any(c.valid is not None for c in columns):
            valid = np.concatenate([np.ones(len(c), bool) if c.valid is None else c.valid for c in columns])
        offsets = (
            None if first.offsets is None else _concat_offsets([c.offsets for c in columns if c.offsets is not None])
        )
        return cls(type=first.type, values=np.concatenate([c.values for c in columns]), offsets=offsets, valid=valid)

    @classmethod
    def from_values(cls, name: str, type: FieldType, values: Sequence[Any]) -> Column:
        """Build from one Python value a row. Raises SchemaError that names the field and the position."""
        missing = [i for i, v in enumerate(values) if v is None]
        if missing and not type.nullable:
            raise SchemaError(
                f"field {name!r} is null in row {missing[0]} of the batch; declare it as '{type}?' to allow nulls"
            )
        valid = None
        if missing:
            valid = np.ones(len(values), bool)
            valid[missing] = False
        if not type.has_offsets:
            return cls(type=type, values=_scalars(name, type, values), valid=valid)
        parts = [_item(name, type, i, v) for i, v in enumerate(values)]
        flat = np.concatenate(parts) if parts else np.empty(0, type.dtype)
        return cls(type=type, values=flat, offsets=offsets_of([len(p) for p in parts]), valid=valid)


@dataclass(frozen=True, kw_only=True)
class RowBatch:
    """k rows: ``tokens`` flat (any integer dtype, native byte order), ``offsets`` int64[k + 1] from 0, and the fields."""

    tokens: Array
    offsets: Offsets
    fields: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_tokens(self) -> int:
        """Tokens in all rows."""
        return len(self.tokens)

    @property
    def lengths(self) -> Offsets:
        """int64[k]: the tokens in each row."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of the tokens and of all field values."""
        return int(self.tokens.nbytes) + sum(c.nbytes for c in self.fields.values())

    def row(self, i: int) -> dict[str, Any]:
        """Row i as ``{"tokens": 1-D array, field: value, ...}``."""
        row: dict[str, Any] = {"tokens": self.tokens[self.offsets[i] : self.offsets[i + 1]]}
        row.update((name, column.value(i)) for name, column in self.fields.items())
        return row

    def cast(self, dtype: str, first_row: int = 0) -> RowBatch:
        """The same rows with tokens in ``dtype``; never wrapped. Raises SchemaError (rows counted from ``first_row``)."""
        if self.tokens.dtype == np.dtype(dtype) and self.tokens.dtype.kind == "u":
            return self
        return RowBatch(
            tokens=cast_tokens(self.tokens, self.offsets, dtype, first_row), offsets=self.offsets, fields=self.fields
        )

    def slice(self, start: int, stop: int) -> RowBatch:
        """Rows start .. stop, sharing memory."""
        tokens, offsets = _slice(self.tokens, self.offsets, start, stop)
        return RowBatch(
            tokens=tokens, offsets=offsets, fields={n: c.slice(start, stop) for n, c in self.fields.items()}
        )

    @classmethod
    def concat(cls, batches: Sequence[RowBatch]) -> RowBatch:
        """The rows of all batches one after another; at least one batch."""
        if len(batches) == 1:
            return batches[0]
        return cls(
            tokens=np.concatenate([b.tokens for b in batches]),
            offsets=_concat_offsets([b.offsets for b in batches]),
            fields={n: Column.concat([b.fields[n] for b in batches]) for n in batches[0].fields},
        )

    @classmethod
    def from_rows(
        cls, tokens: Sequence[Array], schema: Schema, fields: Mapping[str, Sequence[Any]] | None = None
    ) -> RowBatch:
        """Build from one token array a row and one sequence of values a field, cast to the schema's token dtype.

        Raises SchemaError for floats, nested arrays, negative ids and ids past the dtype, naming the row.
        """
        fields = fields or {}
        arrays = [token_array(t, i) for i, t in enumerate(tokens)]
        flat = np.concatenate(arrays) if arrays else np.empty(0, schema.token_dtype)
        offsets = offsets_of([len(a) for a in arrays])
        columns = {n: Column.from_values(n, t, fields[n]) for n, t in schema.fields.items()}
        return cls(tokens=cast_tokens(flat, offsets, schema.token_dtype), offsets=offsets, fields=columns)

    @classmethod
    def empty(cls, schema: Schema) -> RowBatch:
        """No rows, with the schema's columns."""
        return cls.from_rows([], schema, {name: [] for name in schema.fields})


def offsets_of(lengths: Sequence[int] | Array) -> Offsets:
    """int64[k + 1]: where each of k rows begins, and the end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def token_array(tokens: Any, row: int) -> Array:
    """``tokens`` as a 1-D integer array. Raises SchemaError that names ``row``."""
    array = np.asarray(tokens)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.uint16)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise SchemaError(
            f"row {row}: tokens must be a one-dimensional array of integers, not {array.ndim}-dimensional {array.dtype}"
        )
    return array


def cast_tokens(tokens: Array, offsets: Offsets, dtype: str, first_row: int = 0) -> Array:
    """``tokens`` in ``dtype``, in native byte order; never wrapped.

    Raises SchemaError with the row (counted from ``first_row``) and the id when one is negative, past 32 bits, or
    doesn't fit the dtype.
    """
    target = np.dtype(dtype)
    limit = min(int(np.iinfo(target).max), 2**32 - 1)
    source = tokens.dtype
    if len(tokens) and (source.kind == "i" or np.iinfo(source).max > limit):
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high > limit:
            at = int(np.argmax((tokens < 0) | (tokens > limit)))
            row = first_row + int(np.searchsorted(offsets, at, side="right")) - 1
            raise SchemaError(
                f"row {row}: token id {int(tokens[at])} does not fit {dtype} (0 .. {limit}); "
                + ("ids are never negative" if tokens[at] < 0 else "choose a wider token_dtype")
            )
    return tokens.astype(target, copy=False)


def _slice(values: Array, offsets: Offsets, start: int, stop: int) -> tuple[Array, Offsets]:
    part = offsets[start : stop + 1]
    return values[part[0] : part[-1]], part - part[0]


def _concat_offsets(parts: Sequence[Offsets]) -> Offsets:
    return offsets_of(np.concatenate([np.diff(p) for p in parts]))


def _scalars(name: str, type: FieldType, values: Sequence[Any]) -> Array:
    zero = type.dtype.type(0).item()
    filled = [zero if v is None else v for v in values]
    exact = np.asarray(filled) if filled else np.empty(0, type.dtype)
    return _checked(name, type, exact, "a row")


def _item(name: str, type: FieldType, i: int, value: Any) -> Array:
    if value is None:
        return np.empty(0, type.dtype)
    if type.is_binary:
        expected = str if type.name == "string" else (bytes, bytearray, memoryview)
        if not isinstance(value, expected):
            raise SchemaError(
                f"field {name!r}, row {i} of the batch: expected {type.name}, found {value.__class__.__name__}"
            )
        try:
            raw = value.encode() if isinstance(value, str) else bytes(value)
        except UnicodeEncodeError as e:
            raise SchemaError(f"field {name!r}, row {i} of the batch: text that UTF-8 can't hold ({e.reason})") from e
        return np.frombuffer(raw, np.uint8)
    array = np.asarray(value)
    if array.ndim != 1:
        raise SchemaError(f"field {name!r}, row {i} of the batch: expected a list ({type}), found {value!r:.80}")
    if array.size == 0:
        return np.empty(0, type.dtype)
    return _checked(name, type, array, f"row {i} of the batch")


def _checked(name: str, type: FieldType, array: Array, where: str) -> Array:
    """Cast numbers to the field's dtype, refusing what would change a value."""
    kinds = {"b": "b", "i": "iu", "u": "iu", "f": "fiu"}[type.dtype.kind]
    if array.dtype.kind not in kinds or array.ndim != 1:
        raise SchemaError(f"field {name!r}, {where}: expected {type}, found values of type {array.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(type.dtype, copy=False)
        same = True
        if type.dtype.kind in "iu" and array.dtype != cast.dtype and array.size:
            info = np.iinfo(type.dtype)
            same = info.min <= int(array.min()) and int(array.max()) <= info.max
        elif type.dtype.kind == "f" and array.dtype.kind in "iu":
            same = bool(np.array_equal(cast.astype(array.dtype), array))
    if not same:
        raise SchemaError(f"field {name!r}, {where}: a value does not fit {type}")
    return cast
