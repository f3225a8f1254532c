"""RowBatch to Arrow and back. Values are shared, not copied, where both keep them alike: numbers, text and bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tokenyard.errors import DataError, SchemaError
from tokenyard.formats.shared.foreign import Place
from tokenyard.rows import Array, Column, Offsets, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema

_MAX_OFFSET = 2**31 - 1
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


# ---- types ----


def data_type(type: FieldType) -> pa.DataType:
    """The Arrow type of a field; items of lists are never null."""
    scalar = {"string": pa.string(), "bytes": pa.binary()}.get(type.name) or pa.from_numpy_dtype(type.dtype)
    return _list_of(scalar) if type.is_list else scalar


def field_type(type: pa.DataType, nullable: bool) -> FieldType | None:
    """The field type that holds an Arrow type; None when none does (times, decimals, structs, lists of text ...)."""
    if pa.types.is_dictionary(type):
        return field_type(type.value_type, nullable)
    if is_list(type):
        item = field_type(type.value_type, False)
        return FieldType(item.name, True, nullable) if item and not item.has_offsets else None
    if _is_any(type, "string", "large_string", "string_view"):
        return FieldType("string", False, nullable)
    if _is_any(type, "binary", "large_binary", "binary_view", "fixed_size_binary"):
        return FieldType("bytes", False, nullable)
    if pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_boolean(type):
        return FieldType(numpy_dtype(type).name, False, nullable)
    return None


def numpy_dtype(type: pa.DataType) -> np.dtype[Any]:
    """The dtype of a number; Arrow's own ``to_pandas_dtype`` imports pandas."""
    return np.dtype(_FLOATS.get(str(type), str(type)))


def is_list(type: pa.DataType) -> bool:
    """Whether it is one of the list layouts that are read."""
    return _is_any(type, "list", "large_list", "fixed_size_list")


def arrow_schema(schema: Schema) -> pa.Schema:
    """Tokens first, then the fields by name; nullable exactly where declared."""
    tokens = pa.field("tokens", _list_of(pa.from_numpy_dtype(np.dtype(schema.token_dtype))), nullable=False)
    fields = [pa.field(n, data_type(t), nullable=t.nullable) for n, t in sorted(schema.fields.items())]
    return pa.schema([tokens, *fields])


def _list_of(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item, nullable=False))


def _is_any(type: pa.DataType, *names: str) -> bool:
    return any(getattr(pa.types, f"is_{name}", lambda _: False)(type) for name in names)


# ---- to Arrow ----


def record_batch(rows: RowBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a record batch of ``arrow_schema``. Raises SchemaError for a null that isn't declared, or 2^31 items."""
    arrays = [_array("tokens", schema.field("tokens"), rows.tokens, rows.offsets, None)]
    for name in schema.names[1:]:
        column = rows.fields[name]
        arrays.append(_array(name, schema.field(name), column.values, column.offsets, column.valid))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def binary_array(name: str, column: Column) -> pa.Array:
    """Text or bytes as an array; nulls are empty. Raises SchemaError for text that isn't UTF-8."""
    field = pa.field(name, data_type(column.type))
    return _array(name, field, column.values, column.offsets, None)


def _array(name: str, field: pa.Field, values: Array, offsets: Offsets | None, valid: Any) -> pa.Array:
    validity = None
    if valid is not None and not valid.all():
        if not field.nullable:
            raise SchemaError(f"field {name!r} holds a null; declare it nullable, with a last '?'")
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if offsets is None:
        return pa.Array.from_buffers(field.type, len(values), [validity, _buffer(values)])
    if offsets[-1] > _MAX_OFFSET:
        raise SchemaError(f"{name!r}: {offsets[-1]} items in one row; Arrow lists hold {_MAX_OFFSET}, cut the row")
    begins = pa.py_buffer(offsets.astype(np.int32))
    if not is_list(field.type):
        array = pa.Array.from_buffers(field.type, len(offsets) - 1, [validity, begins, _buffer(values)])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as e:
            raise SchemaError(
                f"field {name!r} holds text that is not UTF-8 ({e}); keep it as bytes, or mend it"
            ) from None
        return array
    items = pa.Array.from_buffers(field.type.value_type, len(values), [None, _buffer(values)])
    return pa.Array.from_buffers(field.type, len(offsets) - 1, [validity, begins], children=[items])


def _buffer(values: Array) -> pa.Buffer:
    packed = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.py_buffer(packed)


# ---- from Arrow ----


def tokens_of(array: pa.Array, place: Place) -> tuple[Array, Offsets]:
    """The rows of a list column: items flat, and int64[k + 1] offsets from 0.

    Raises DataError, naming the row by ``place(row)``, for a null row, a null item, or items that are no integers.
    """
    if array.null_count:
        row = int(np.argmin(_valid(array)))
        raise DataError(
            f"{place(row)}: a null where the tokens should be; mend or drop the row (no tokens: an empty list)"
        )
    if not is_list(array.type):
        raise DataError(f"{place(0)}: tokens of type {array.type}; expected a list of integers")
    items, offsets, _ = _list_parts(array, place)
    _check_items(items, offsets, place, "a null among the tokens")
    if not pa.types.is_integer(items.type):
        raise DataError(f"{place(0)}: tokens of type {array.type}; expected a list of integers")
    return _numbers(items), offsets


def column_of(array: pa.Array, type: FieldType, place: Place) -> Column:
    """A column as a field of ``type``. Raises DataError that names the row, by ``place(row)``, of a stray null."""
    array = _without_dictionary(array, place)
    valid = _valid(array) if array.null_count else None
    if valid is not None and not type.nullable:
        raise DataError(f"{place(int(np.argmin(valid)))}: a null in a field that is declared {type}")
    if type.is_binary:
        values, offsets = _binary_parts(array, type, place)
        return Column(type=type, values=values, offsets=offsets, valid=valid)
    if not type.is_list:
        return Column(type=type, values=_numbers(array), valid=valid)
    items, offsets, _ = _list_parts(array, place)
    _check_items(items, offsets, place, "a null in a list")
    return Column(type=type, values=_numbers(items), offsets=offsets, valid=valid)


def _without_dictionary(array: pa.Array, place: Place) -> pa.Array:
    """The values themselves. Raises DataError for one that its dictionary doesn't have."""
    if not pa.types.is_dictionary(array.type):
        return array
    try:
        return array.dictionary_decode()
    except pa.ArrowException as e:
        raise DataError(
            f"{place(0)} or after: a value that its dictionary doesn't have ({e}); restore the file"
        ) from None


def _list_parts(array: pa.Array, place: Place) -> tuple[pa.Array, Offsets, NDArray[np.bool_] | None]:
    """Items, int64[k + 1] offsets from 0, and validity; null rows have no items."""
    valid = _valid(array) if array.null_count else None
    if pa.types.is_fixed_size_list(array.type) or not len(array):
        lengths = np.full(len(array), getattr(array.type, "list_size", 0), np.int64)
    else:
        lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    items = _without_dictionary(array.flatten(), place)
    return items, offsets_of(lengths), valid


def _binary_parts(array: pa.Array, type: FieldType, place: Place) -> tuple[Array, Offsets]:
    large = array.cast(pa.large_string() if type.name == "string" else pa.large_binary())
    if type.name == "string":
        try:
            large.validate(full=True)
        except pa.ArrowInvalid as e:
            raise DataError(
                f"{place(0)} or after: text that is not UTF-8 ({e}); leave the column out, or mend it"
            ) from None
    _, begins, data = large.buffers()
    if not len(large):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(begins, np.int64, len(large) + 1, large.offset * 8)
    values = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    if array.null_count:  # bytes that lie under a null are not the row's
        lengths = np.where(_valid(array), np.diff(offsets), 0)
        if lengths.sum() != offsets[-1] - offsets[0]:
            kept = np.repeat(_valid(array), np.diff(offsets))
            return values[offsets[0] : offsets[-1]][kept], offsets_of(lengths)
    return values[offsets[0] : offsets[-1]], offsets - offsets[0]


def _numbers(array: pa.Array) -> Array:
    """The values, zero where null; shared with Arrow unless they are bits or some are null."""
    dtype = numpy_dtype(array.type)
    data = array.buffers()[1]
    if not len(array) or data is None:
        return np.zeros(len(array), dtype)
    if dtype == np.bool_:
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=array.offset + len(array), bitorder="little")
        values: Array = bits[array.offset :].view(np.bool_)
    else:
        values = np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)
    return np.where(_valid(array), values, dtype.type(0)) if array.null_count else values


def _valid(array: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _check_items(items: pa.Array, offsets: Offsets, place: Place, what: str) -> None:
    if items.null_count:
        at = int(np.argmin(_valid(items)))
        row = int(np.searchsorted(offsets, at, side="right")) - 1
        raise DataError(f"{place(row)}: {what} (item {at - int(offsets[row])}); rows hold numbers only")
