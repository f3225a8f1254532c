"""Python values as arrays: tokens and fields of one row, refusing whatever would change a value.

numpy alone wraps, rounds or promotes some of what users pass (numpy scalars, mixed lists, large whole numbers) without
a word; here each of these is an error that names the row and the field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import SchemaError
from tokenyard.schema import FieldType

_EXACT: dict[str, type[bool | int | float]] = {"b": bool, "i": int, "u": int, "f": float}


def token_array(tokens: Any, row: int) -> NDArray[Any]:
    """``tokens`` (a list, an array, a tensor) as a 1-D integer array. Raises SchemaError that names ``row``."""
    try:
        array = np.asarray(tokens)
    except (TypeError, ValueError, RuntimeError) as e:  # a ragged list; a tensor of a type or place unknown to numpy
        raise SchemaError(f"row {row}: tokens must be a one-dimensional array of integers ({e})") from None
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.uint16)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise SchemaError(
            f"row {row}: tokens must be a one-dimensional array of integers of at most 64 bits, not "
            f"{array.ndim}-dimensional {array.dtype}"
        )
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max()) >= 2**63:
        # Beside signed rows, such an id would become a float.
        raise SchemaError(f"row {row}: token id {int(array.max())} is outside 0 .. 4294967295")
    return array


def row_items(name: str, type: FieldType, row: int, value: Any) -> NDArray[Any]:
    """One row's value of a list, text or bytes as a flat array."""
    if value is None:
        return np.empty(0, type.dtype)
    if type.is_binary:
        return _raw(name, type, row, value)
    if isinstance(value, list | tuple):
        return number_array(name, type, value, lambda i: f"row {row}, item {i}")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as e:
        raise SchemaError(f"row {row}: field {name!r}: expected a list ({type}): {e}") from None
    if array.ndim != 1:
        raise SchemaError(f"row {row}: field {name!r}: expected a list ({type}), found {value!r:.80}")
    return _checked(name, type, array, row) if array.size else np.empty(0, type.dtype)


def _raw(name: str, type: FieldType, row: int, value: Any) -> NDArray[Any]:
    expected = str if type.name == "string" else (bytes, bytearray, memoryview)
    if not isinstance(value, expected):
        raise SchemaError(f"row {row}: field {name!r}: expected {type.name}, found {value.__class__.__name__}")
    try:
        raw = value.encode() if isinstance(value, str) else bytes(value)
    except UnicodeEncodeError as e:
        raise SchemaError(f"row {row}: field {name!r}: text that UTF-8 can't hold ({e.reason})") from None
    return np.frombuffer(raw, np.uint8)


def number_array(name: str, type: FieldType, values: Sequence[Any], where: Callable[[int], str]) -> NDArray[Any]:
    """Python, numpy or torch scalars as the field's dtype, refusing what would change a value.

    One at a time: numpy alone would wrap, round or promote some mixtures of scalars without a word.
    """
    dtype = type.dtype
    if not {v.__class__ for v in values} <= {_EXACT[dtype.kind]}:
        values = [_number(name, type, v, i, where) for i, v in enumerate(values)]
    if dtype.kind != "f":
        try:
            return np.array(values, dtype)
        except OverflowError:
            info = np.iinfo(dtype)
            i = next(i for i, v in enumerate(values) if not info.min <= v <= info.max)
            raise SchemaError(f"{where(i)}: field {name!r}: {values[i]} does not fit {type}") from None
    floats = np.array(values, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        cast = floats.astype(dtype)
    lost = np.isinf(cast) & np.isfinite(floats)
    if lost.any():
        i = int(np.argmax(lost))
        raise SchemaError(f"{where(i)}: field {name!r}: {values[i]} does not fit {type}")
    return cast


def exact_number(type: FieldType, value: Any) -> bool | int | float:
    """A number as the field's type takes it: a bool is no int, an int must fit, a float may be rounded.

    Raises SchemaError.
    """
    dtype = type.dtype
    number = _exact(type, value)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        fits = info.min <= number <= info.max
    else:
        with np.errstate(over="ignore", under="ignore"):
            fits = dtype.kind == "b" or not (np.isinf(dtype.type(number)) and np.isfinite(number))
    if not fits:
        raise SchemaError(f"{number} does not fit {type}")
    return number


def _number(name: str, type: FieldType, value: Any, i: int, where: Callable[[int], str]) -> bool | int | float:
    try:
        return _exact(type, value)
    except SchemaError as e:
        raise SchemaError(f"{where(i)}: field {name!r}: {e}") from None


def _exact(type: FieldType, value: Any) -> bool | int | float:
    """A number of the field's kind; whether it is too large is seen later."""
    kind = type.dtype.kind
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(plain, bool) or kind == "b":
        exact = isinstance(plain, bool) and kind == "b"
    else:
        exact = isinstance(plain, int | float if kind == "f" else int)
    if not exact:
        raise SchemaError(f"expected {type.name}, found {value!r:.80}")
    if kind == "f" and isinstance(plain, int):
        return _float_of(plain, type)
    return _EXACT[kind](plain)


def _float_of(value: int, type: FieldType) -> float:
    with np.errstate(over="ignore"):
        try:
            if float(type.dtype.type(float(value))) == value:
                return float(value)
        except OverflowError:
            pass
    raise SchemaError(f"{value} does not fit {type}")


def _checked(name: str, type: FieldType, array: NDArray[Any], row: int) -> NDArray[Any]:
    """Cast an array of numbers to the field's dtype, refusing what would change a value."""
    dtype = type.dtype
    kinds = {"b": "b", "i": "iu", "u": "iu", "f": "fiu"}[dtype.kind]
    if array.dtype.kind not in kinds:
        raise SchemaError(f"row {row}: field {name!r}: expected {type}, found values of type {array.dtype}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        cast = array.astype(dtype, copy=False)
        same = True
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            same = info.min <= int(array.min()) and int(array.max()) <= info.max
        elif array.dtype.kind in "iu":
            # Below the first power of two past the integers: a float there has none to go back to.
            back = cast.astype(np.float64)
            below = back < float(np.iinfo(array.dtype).max) + 1
            same = bool(below.all()) and bool((back.astype(array.dtype) == array).all())
        elif dtype.kind == "f":
            same = not (np.isinf(cast) & np.isfinite(array)).any()
    if not same:
        raise SchemaError(f"row {row}: field {name!r}: a value does not fit {type}")
    return cast
