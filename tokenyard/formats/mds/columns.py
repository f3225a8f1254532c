"""The columns of MDS shards: what encodings of mosaicml-streaming 0.13 mean here, and what fields are written as.

A number is a scalar encoding, a list ``ndarray:<dtype>``; bool is kept as uint8. A nullable field has a second column
``<field>.valid``, uint8, with 1 where the value is not null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenyard.cached import cached_property
from tokenyard.schema import FieldType, Schema

#: Offsets are 32 bits wide, and the last one is the size of the file.
MAX_SHARD_BYTES = (1 << 32) - 1
#: What to do about an array of two dimensions or more.
ONE_DIMENSION = "a row's value has one dimension: write it flat, or leave an extra column out with fields=[...]"
#: A length that a file can hold.
_LENGTH = re.compile(r"0*[1-9][0-9]{0,9}")
_SCALARS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
_TEXT = ("str", "json", "str_int", "str_float", "str_decimal")
_BYTES = ("bytes", "jpeg", "jpeg_array", "jpegarray", "png")


@dataclass(frozen=True, kw_only=True)
class MdsColumn:
    """One column: its name and encoding as ``index.json`` has them, and its bytes a row if they are fixed."""

    name: str
    encoding: str
    size: int | None

    @cached_property
    def problem(self) -> str | None:
        """Why its values can't be read; None when they can."""
        kind, _, rest = self.encoding.partition(":")
        if kind == "pkl":
            return "pickled objects, which tokenyard never unpickles"
        if kind == "ndarray":
            dtype, _, shape = rest.partition(":")
            if dtype and dtype not in _SCALARS:
                return f"arrays of the unknown dtype {dtype}"
            if shape and not all(_LENGTH.fullmatch(d) for d in shape.split(",")):
                return f"arrays of the impossible shape ({shape})"
            if shape and len(shape.split(",")) > 1:
                return f"arrays of shape ({shape}); a row's value has one dimension"
        elif kind not in (*_SCALARS, *_TEXT, *_BYTES, "int"):
            return f"the encoding {self.encoding}, which has no type here"
        expected = self._expected_size
        if self.size != expected:
            return f"a column_size of {self.size}, but {self.encoding} takes {expected or 'varying'} bytes"
        return None

    @cached_property
    def is_array(self) -> bool:
        """Whether values are arrays."""
        return self.encoding.partition(":")[0] == "ndarray"

    @cached_property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of a number or of an array's items; None for text, bytes, and arrays that say it themselves."""
        name = self.encoding.split(":")[1] if self.encoding.startswith("ndarray:") else self.encoding
        name = "int64" if name == "int" else name
        return np.dtype(name).newbyteorder("<") if name in _SCALARS else None

    @cached_property
    def items(self) -> int | None:
        """The length of arrays of a fixed shape."""
        parts = self.encoding.split(":")
        return int(parts[2]) if self.is_array and len(parts) > 2 else None

    @property
    def field_type(self) -> FieldType | None:
        """The type of a field that holds it; None for an array that says its dtype itself."""
        if self.dtype is None:
            if self.is_array:
                return None
            return FieldType("string" if self.encoding in _TEXT else "bytes")
        return FieldType(self.dtype.name, is_list=self.is_array)

    @property
    def _expected_size(self) -> int | None:
        if self.dtype is None:
            return None
        if not self.is_array:
            return self.dtype.itemsize
        return None if self.items is None else self.items * self.dtype.itemsize


def column_of(name: str, type: FieldType) -> MdsColumn:
    """The column that a field is written to; bool is kept as uint8."""
    dtype = np.dtype(np.uint8) if type.name == "bool" else type.dtype
    if type.is_binary:
        return MdsColumn(name=name, encoding="str" if type.name == "string" else "bytes", size=None)
    if type.is_list:
        return MdsColumn(name=name, encoding=f"ndarray:{dtype.name}", size=None)
    return MdsColumn(name=name, encoding=dtype.name, size=dtype.itemsize)


def valid_name(field: str) -> str:
    """The column that says which rows of a nullable field are not null."""
    return f"{field}.valid"


def columns_of(schema: Schema) -> list[MdsColumn]:
    """The columns of a shard of ours, sorted by name as the library does."""
    columns = [column_of("tokens", FieldType(schema.token_dtype, is_list=True))]
    for name, type in schema.fields.items():
        columns.append(column_of(name, type))
        if type.nullable:
            columns.append(column_of(valid_name(name), FieldType("uint8")))
    return sorted(columns, key=lambda c: c.name)
