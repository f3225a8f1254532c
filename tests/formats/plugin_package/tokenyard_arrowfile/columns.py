"""Columns of tokenyard as Arrow arrays, and back without a copy where Arrow's layout is the same."""

import numpy as np
import pyarrow as pa

from tokenyard.errors import DataError
from tokenyard.rows import Column
from tokenyard.schema import FieldType

_TEXT = {"string": pa.large_string(), "bytes": pa.large_binary()}


def to_arrow(column: Column) -> pa.Array:
    """An array of one value a row."""
    null = None if column.valid is None else ~column.valid
    if column.offsets is None:
        return pa.array(column.values, mask=null)
    if column.type.is_binary:
        validity = None if null is None else pa.array(column.valid).buffers()[1]
        buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(np.ascontiguousarray(column.values))]
        return pa.Array.from_buffers(_TEXT[column.type.name], len(column), buffers)
    mask = None if null is None else pa.array(null)
    return pa.LargeListArray.from_arrays(pa.array(column.offsets), pa.array(column.values), mask=mask)


def from_arrow(array: pa.Array, type: FieldType) -> Column:
    """The inverse of ``to_arrow``."""
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    if not type.has_offsets:
        return Column(type=type, values=_numbers(array, type), valid=valid)
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    if type.is_binary:
        data = array.buffers()[2]
        values = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    else:
        values = _numbers(array.values, type)
    first, last = int(offsets[0]), int(offsets[-1])
    return Column(type=type, values=values[first:last], offsets=offsets - first, valid=valid)


def field_type(type: pa.DataType, where: str) -> FieldType:
    """The field type that holds a column of Arrow's ``type``. Raises DataError."""
    if type in _TEXT.values():
        return FieldType("string" if type == pa.large_string() else "bytes")
    item = type.value_type if pa.types.is_large_list(type) else type
    try:
        return FieldType.parse(np.dtype(item.to_pandas_dtype()).name + "[]" * (item is not type))
    except (NotImplementedError, ValueError):
        raise DataError(f"{where}: a column of type {type}, which no field holds") from None


def _numbers(array: pa.Array, type: FieldType) -> np.ndarray:
    data = array.buffers()[1]
    if data is None or type.name == "bool":  # Arrow keeps booleans as bits
        return array.fill_null(False).to_numpy(zero_copy_only=False).astype(type.dtype)
    return np.frombuffer(data, type.dtype, len(array), array.offset * type.dtype.itemsize)
