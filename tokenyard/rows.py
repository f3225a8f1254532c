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
from tokenyard.values import number_array, row_items, token_array

Offsets = NDArray[np.int64]
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One extra field of k rows.

    ``values``: one item a row for scalars; all items flat for lists; raw bytes (uint8, UTF-8 for text) for text and
    bytes. ``offsets``: int64[k + 1] into ``values`` where rows have lengths of their own, else None. ``valid``:
    bool[k], or None when no row is null. A null row is zero, or of no length.
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
    def from_values(cls, name: str, type: FieldType, values: Sequence[Any], first_row: int = 0) -> Column:
        """Build from one Python value a row. Raises SchemaError; rows count from ``first_row``."""
        missing = [i for i, v in enumerate(values) if v is None]
        if missing and not type.nullable:
            raise SchemaError(
                f"row {first_row + missing[0]}: field {name!r} is null; declare it as '{type}?' to allow nulls"
            )
        valid = None
        if missing:
            valid = np.ones(len(values), bool)
            valid[missing] = False
        if not type.has_offsets:
            zero = type.dtype.type(0).item()
            filled = [zero if v is None else v for v in values]
            scalars = number_array(name, type, filled, lambda i: f"row {first_row + i}")
            return cls(type=type, values=scalars, valid=valid)
        parts = [row_items(name, type, first_row + i, v) for i, v in enumerate(values)]
        flat = np.concatenate(parts) if parts else np.empty(0, type.dtype)
        return cls(type=type, values=flat, offsets=offsets_of([len(p) for p in parts]), valid=valid)

    def check(self, name: str, num_rows: int) -> None:
        """Raise SchemaError unless this is a sound column of ``num_rows`` rows, null only where that is allowed."""
        if len(self) != num_rows or (self.valid is not None and len(self.valid) != num_rows):
            raise SchemaError(f"field {name!r} has {len(self)} rows, its batch {num_rows}")
        if self.values.ndim != 1 or self.values.dtype != self.type.dtype:
            raise SchemaError(f"field {name!r}: expected {self.type}, found values of type {self.values.dtype}")
        if self.type.has_offsets != (self.offsets is not None):
            raise SchemaError(f"field {name!r}: {self.type} takes {'' if self.type.has_offsets else 'no '}offsets")
        if self.offsets is not None:
            _check_offsets(f"field {name!r}", self.offsets, len(self.values))
        if not self.type.nullable and self.valid is not None and not self.valid.all():
            raise SchemaError(f"field {name!r} is null in some rows; declare it as '{self.type}?' to allow nulls")


@dataclass(frozen=True, kw_only=True)
class RowBatch:
    """k rows: ``tokens`` flat (integers, native byte order), ``offsets`` int64[k + 1] from 0, and the fields."""

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
        """The same rows with tokens in ``dtype``, never wrapped. Raises SchemaError; rows count from ``first_row``."""
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
            tokens=_join([b.tokens for b in batches]),
            offsets=_concat_offsets([b.offsets for b in batches]),
            fields={n: Column.concat([b.fields[n] for b in batches]) for n in batches[0].fields},
        )

    def check(self) -> None:
        """Raise SchemaError unless tokens, offsets and every column fit together."""
        if self.tokens.ndim != 1 or self.tokens.dtype.kind not in "iu":
            raise SchemaError(
                f"the batch's tokens must be one flat array of integers, not {self.tokens.ndim}-dimensional "
                f"{self.tokens.dtype}"
            )
        _check_offsets("the batch", self.offsets, len(self.tokens))
        for name, column in self.fields.items():
            column.check(name, len(self))

    @classmethod
    def from_rows(
        cls,
        tokens: Sequence[Any],
        schema: Schema,
        fields: Mapping[str, Sequence[Any]] | None = None,
        first_row: int = 0,
    ) -> RowBatch:
        """Build from one token array a row and one sequence of values a field, cast to the schema's token dtype.

        Raises SchemaError for floats, nested arrays, negative ids and ids past the dtype, and for values that a field
        can't hold, naming the row (counted from ``first_row``).
        """
        fields = fields or {}
        if fields.keys() != schema.fields.keys():
            raise SchemaError(f"fields {sorted(fields)} were given, the schema declares {sorted(schema.fields)}")
        for name, values in fields.items():
            if len(values) != len(tokens):
                raise SchemaError(f"field {name!r} has {len(values)} values for {len(tokens)} rows")
        arrays = [token_array(t, first_row + i) for i, t in enumerate(tokens)]
        flat = _join(arrays) if arrays else np.empty(0, schema.token_dtype)
        offsets = offsets_of([len(a) for a in arrays])
        columns = {n: Column.from_values(n, t, fields[n], first_row) for n, t in schema.fields.items()}
        return cls(tokens=cast_tokens(flat, offsets, schema.token_dtype, first_row), offsets=offsets, fields=columns)

    @classmethod
    def empty(cls, schema: Schema) -> RowBatch:
        """No rows, with the schema's columns."""
        return cls.from_rows([], schema, {name: [] for name in schema.fields})


def offsets_of(lengths: Sequence[int] | Array) -> Offsets:
    """int64[k + 1]: where each of k rows begins, and the end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


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


def first_id_from(limit: int, batch: RowBatch) -> tuple[int, int] | None:
    """The first row of a batch with an id from ``limit`` on, and that id; None where all are below."""
    if not len(batch.tokens) or int(batch.tokens.max()) < limit:
        return None
    at = int(np.argmax(batch.tokens >= limit))
    return int(np.searchsorted(batch.offsets, at, side="right")) - 1, int(batch.tokens[at])


def _slice(values: Array, offsets: Offsets, start: int, stop: int) -> tuple[Array, Offsets]:
    part = offsets[start : stop + 1]
    return values[part[0] : part[-1]], part - part[0]


def _concat_offsets(parts: Sequence[Offsets]) -> Offsets:
    return offsets_of(np.concatenate([np.diff(p) for p in parts]))


def _join(parts: Sequence[Array]) -> Array:
    """Token arrays one after another in an integer dtype that holds them all."""
    common = np.result_type(*[p.dtype for p in parts])
    if common.kind == "f":
        # numpy makes float64 of int64 with uint64. An id that needs the 64th bit is none.
        for part in parts:
            if part.dtype.kind == "u" and len(part) and int(part.max()) >= 2**63:
                raise SchemaError(
                    f"token id {int(part.max())} is outside 0 .. 4294967295, the ids that a corpus can hold"
                )
        common = np.dtype(np.int64)
    return np.concatenate([p.astype(common, copy=False) for p in parts])


def _check_offsets(what: str, offsets: Offsets, num_items: int) -> None:
    sound = offsets.ndim == 1 and offsets.dtype == np.int64 and len(offsets) > 0
    if not sound or offsets[0] != 0 or offsets[-1] != num_items or (offsets[1:] < offsets[:-1]).any():
        raise SchemaError(f"{what}: offsets must be int64 and increase from 0 to the {num_items} items")
