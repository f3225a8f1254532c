"""Columns out of values that a text format has parsed, their kinds checked already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.shared.foreign import Place
from tokenyard.rows import Column, offsets_of
from tokenyard.schema import FieldType


def column_of_numbers(name: str, type: FieldType, values: Sequence[Any], place: Place) -> Column:
    """One number, list of numbers, or None a row. Raises DataError that names the row, by ``place``, of a misfit."""
    valid = _valid(values)
    items: list[Any] = [(() if type.is_list else 0) if v is None else v for v in values]
    flat = [x for item in items for x in item] if type.is_list else items
    try:
        array = np.array(flat, type.dtype)
    except (OverflowError, ValueError, TypeError):
        array = np.concatenate([_checked(name, type, item, place(i)) for i, item in enumerate(items)])
    offsets = offsets_of([len(item) for item in items]) if type.is_list else None
    return Column(type=type, values=array, offsets=offsets, valid=valid)


def column_of_bytes(type: FieldType, values: Sequence[bytes | None]) -> Column:
    """Text (as UTF-8) or bytes, or None a row."""
    raw = [v or b"" for v in values]
    joined = np.frombuffer(b"".join(raw), np.uint8)
    return Column(type=type, values=joined, offsets=offsets_of([len(v) for v in raw]), valid=_valid(values))


def _checked(name: str, type: FieldType, item: Any, where: str) -> Any:
    try:
        return np.atleast_1d(np.array(item, type.dtype))
    except (OverflowError, ValueError, TypeError) as e:
        raise DataError(f"{where}: {name!r} does not fit {type} ({e})") from None


def _valid(values: Sequence[Any]) -> Any:
    valid = np.array([v is not None for v in values], np.bool_)
    return None if valid.all() else valid
