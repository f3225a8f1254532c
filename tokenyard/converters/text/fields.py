"""Field types as they are declared, such as `int64` or `string?`, and the values that fit them.

A type is one of `string`, `bytes`, `bool`, `int64`, `float64`; `?` behind it allows null and absence.
"""

import math
from dataclasses import dataclass

from tokenyard.converters.text.document import FieldValue
from tokenyard.errors import ConfigError

TYPES = ("string", "bytes", "bool", "int64", "float64")
_INT64 = range(-(2**63), 2**63)
_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldType:
    """A declared type: its name out of `TYPES`, and whether null fits."""

    name: str
    nullable: bool

    def __str__(self) -> str:
        return self.name + "?" * self.nullable


def parse_type(field: str, declared: str) -> FieldType:
    """Read a declaration such as `float64?`; ConfigError when there is no such type."""
    name = declared.removesuffix("?")
    if name not in TYPES:
        raise ConfigError(
            f"field {field!r}: expected a type out of {', '.join(TYPES)}, with ? behind it when null is allowed; "
            f"found {declared!r}"
        )
    return FieldType(name=name, nullable=declared.endswith("?"))


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
        case ("bytes", bytes() as same) | ("bool", bool() as same) | ("float64", float() as same):
            return same
        case "int64", int() if not isinstance(value, bool) and value in _INT64:
            return value
        case "float64", int() if not isinstance(value, bool) and abs(value) <= 2**53:
            return float(value)
    raise ValueError(f"expected {kind}, found {type(value).__name__} {_short(value)}")


def fit_text(cell: str, kind: FieldType) -> FieldValue:
    """Return a CSV cell as `kind` holds it. An empty cell is null, except for `string`, where it is ''."""
    if kind.name == "string":
        return fit(cell, kind)
    if not cell and kind.nullable:
        return None
    if kind.name == "bool" and cell in _TRUE + _FALSE:
        return cell in _TRUE
    if kind.name == "int64" and cell.isascii() and cell.removeprefix("-").isdigit() and len(cell) <= 20:
        return fit(int(cell), kind)
    if kind.name == "float64":
        number = float(cell)
        if math.isfinite(number) or cell.strip().lower().lstrip("+-").startswith(("inf", "nan")):
            return number
    raise ValueError(f"expected {kind}, found {_short(cell)}")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
