"""The types that copied fields are declared with (those of a corpus, but for lists), and the values that fit them."""

import math

from tokenyard.converters.text.document import FieldValue
from tokenyard.errors import ConfigError, SchemaError
from tokenyard.schema import FieldType
from tokenyard.values import exact_number

_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")


def parse_type(field: str, declared: str) -> FieldType:
    """Read a declaration such as `float32?`; ConfigError when there is no such type, and for lists."""
    try:
        kind = FieldType.parse(declared)
    except SchemaError as error:
        raise ConfigError(f"field {field!r}: {error}") from None
    if kind.is_list:
        raise ConfigError(f"field {field!r}: {declared!r} is a list; only numbers, string and bytes are copied")
    return kind


def fit(value: object, kind: FieldType) -> FieldValue:
    """Return a typed value (from JSON, Parquet, MDS) as `kind` holds it; ValueError when it does not fit."""
    if value is None:
        if kind.nullable:
            return None
        raise ValueError(f"expected {kind}, found null")
    match kind.name, value:
        case "string", str():
            value.encode()  # half a surrogate pair is a UnicodeEncodeError, a ValueError
            return value
        case "string", bytes():
            return value.decode()
        case "bytes", bytes():
            return value
    if not kind.is_binary:
        try:
            return exact_number(kind, value)
        except SchemaError:
            pass  # said below, with the type that was found
    raise ValueError(f"expected {kind}, found {type(value).__name__} {_short(value)}")


def fit_text(cell: str, kind: FieldType) -> FieldValue:
    """Return a CSV cell as `kind` holds it. An empty cell is null, except for `string`, where it is ''."""
    if kind.name == "string":
        return fit(cell, kind)
    if not cell and kind.nullable:
        return None
    if kind.name == "bool" and cell in _TRUE + _FALSE:
        return cell in _TRUE
    if kind.dtype.kind in "iu" and not kind.is_binary and _is_integer(cell):
        return fit(int(cell), kind)
    if kind.dtype.kind == "f":
        number = float(cell)
        if math.isfinite(number) or cell.strip().lower().lstrip("+-").startswith(("inf", "nan")):
            return fit(number, kind)
    raise ValueError(f"expected {kind}, found {_short(cell)}")


def _is_integer(cell: str) -> bool:
    return cell.isascii() and cell.removeprefix("-").isdigit() and len(cell) <= 20


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
