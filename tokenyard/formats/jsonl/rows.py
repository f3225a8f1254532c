"""Lines of JSON as rows: the ids in bulk where they are plain, the rest by the standard library's parser.

Python's parser alone gives 4 million ids a second. So the list of ids is cut out of each line as text, the short rest
is parsed as JSON, and the ids of all lines are read at once.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.shared.columns import column_of_bytes, column_of_numbers
from tokenyard.formats.shared.foreign import MAX_ID, Place, first_twice
from tokenyard.formats.shared.numbers import parse_lists
from tokenyard.rows import Array, Column, Offsets, offsets_of
from tokenyard.schema import FieldType

Objects = list[dict[str, Any]]

#: How numbers are written that JSON has none for.
NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
#: Stands where ids were cut out: an integer is spelled in one way, and this one is no float64 either.
_CUT = -(2**53) - 1
_ONE_A_LINE = "a row is one JSON object on one line; 'jq -c .' writes objects so"


def parse_rows(records: Sequence[bytes], key: str, place: Place) -> tuple[Array, Offsets, Objects]:
    """The ids of all lines as flat int64, their offsets, and the objects they stand in.

    Raises DataError, naming the line by ``place``, when a line is no object, or ``key`` no list of ids.
    """
    found = _parse_plain(records, key, place)
    if found is not None:
        return found
    objects = [parse_object(r, place(i)) for i, r in enumerate(records)]
    rows = [_ids(o, key, place(i)) for i, o in enumerate(objects)]
    flat = np.fromiter((t for row in rows for t in row), np.int64)
    return flat, offsets_of([len(row) for row in rows]), objects


def parse_object(record: bytes, where: str) -> dict[str, Any]:
    """One line as an object, each key once. Raises DataError."""
    if record.lstrip()[:1] == b"[":
        raise DataError(f"{where}: a JSON array, not an object; 'jq -c .[]' writes what is in it one object a line")
    try:
        value = _DECODER.decode(record.decode("utf-8"))
    except json.JSONDecodeError as e:
        what = "more than one value" if e.msg == "Extra data" else f"no whole JSON object ({e.msg}, character {e.pos})"
        raise DataError(f"{where}: {what} on the line; {_ONE_A_LINE}") from None
    except (ValueError, RecursionError) as e:
        raise DataError(f"{where}: {e}; {_ONE_A_LINE}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: {value!r:.40}, not an object; {_ONE_A_LINE}")
    return value


def _parse_plain(records: Sequence[bytes], key: str, place: Place) -> tuple[Array, Offsets, Objects] | None:
    """The quick way; None when some line isn't plain."""
    # Inside a JSON string every quote has a backslash before it, so the key in quotes and a colon never lie in one.
    name = json.dumps(key).encode()
    pattern = re.compile(re.escape(name) + rb"[ \t]*:[ \t]*\[([0-9, ]*)\]")
    cut = str(_CUT).encode()
    only = b"{" + name + b":[" + cut + b"]}"
    cells, objects = [], []
    for i, record in enumerate(records):
        match = pattern.search(record)
        if match is None:
            return None
        start, end = match.span(1)
        rest = record[:start] + cut + record[end:]
        if rest != only:
            try:
                value = parse_object(rest, place(i))
            except DataError:
                return None  # its place is counted in the whole line
            # The key may stand in an object inside, or in another key, while that of the ids has escapes in it.
            if value.get(key) != [_CUT] or rest.count(cut) != 1:
                return None
            value[key] = []
            objects.append(value)
        else:
            objects.append({})
        cells.append(record[start:end])
    if any(b" " in c for c in cells):
        cells = [c.replace(b", ", b",") for c in cells]
    found = parse_lists(cells, b",")
    if found is None or (len(found[0]) and found[0].max() > MAX_ID):
        return None
    return *found, objects


def _ids(value: Mapping[str, Any], key: str, where: str) -> list[int]:
    if key not in value:
        raise DataError(
            f"{where}: no key {key!r}; it has {', '.join(map(repr, value)) or 'none'}. Every row needs its tokens"
        )
    ids = value[key]
    if not isinstance(ids, list):
        shown = "null" if ids is None else f"{type(ids).__name__} {ids!r:.40}"
        raise DataError(f"{where}: {key!r} is {shown}, expected a list of token ids; an empty row is []")
    for at, item in enumerate(ids):
        if type(item) is not int or not 0 <= item <= MAX_ID:
            raise DataError(
                f"{where}: {key!r}[{at}] is {json.dumps(item):.40}; token ids are whole numbers 0 .. {MAX_ID}"
            )
    return ids


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"an object with the key {first_twice(name for name, _ in pairs)!r} twice")
    return found


def _finite(digits: str) -> float:
    """Refuse 1e999, which Python would read as infinity: what can't be kept is never changed in silence."""
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits:.40} is past float64")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite)


# ---- fields ----


def field_column(name: str, type: FieldType, objects: Objects, place: Place) -> Column:
    """A key of all objects as a field; where it is absent it is null. Raises DataError that names the line."""
    values = [o.get(name) for o in objects]
    allowed = _allowed(type)
    for i, value in enumerate(values):
        if value is None:
            if not type.nullable:
                raise DataError(f"{place(i)}: no {name!r}, which is declared {type}")
        elif type.is_list:
            if value.__class__ is not list or not set(map(_class, value)) <= allowed:
                raise DataError(f"{place(i)}: {name!r} is {json.dumps(value):.60}, expected {type}")
        elif value.__class__ not in allowed:
            raise DataError(f"{place(i)}: {name!r} is {json.dumps(value):.60}, expected {type}")
    if not type.is_binary:
        numbers = [None if v is None else _number(type, v, name, place(i)) for i, v in enumerate(values)]
        return column_of_numbers(name, type, numbers, place)
    return column_of_bytes(type, [None if v is None else _raw(type, v, name, place(i)) for i, v in enumerate(values)])


def infer_types(objects: Objects) -> dict[str, FieldType | str]:
    """The type of each key, nullable; or words that say why it can be no field."""
    seen: dict[str, set[str]] = {}
    for value in objects:
        for name, item in value.items():
            seen.setdefault(name, set()).add(_kind(item))
    return {name: _common(kinds - {"null"}) for name, kinds in seen.items()}


def _class(value: Any) -> type[Any]:
    kind: type[Any] = value.__class__
    return kind


def _allowed(declared: FieldType) -> set[type[Any]]:
    if declared.is_binary:
        return {str}
    numbers: dict[str, set[type[Any]]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float, str}}
    return numbers[declared.dtype.kind]


def _number(declared: FieldType, value: Any, name: str, where: str) -> Any:
    """A JSON value, with the texts that stand for numbers which JSON can't write put back."""
    if declared.dtype.kind != "f":
        return value
    items = value if declared.is_list else [value]
    for item in items:
        if isinstance(item, str) and item not in NOT_FINITE:
            raise DataError(f"{where}: {name!r} holds the text {item!r:.40}, expected {declared}")
    try:
        floats = [NOT_FINITE[v] if isinstance(v, str) else float(v) for v in items]
    except OverflowError:
        raise DataError(f"{where}: {name!r} holds a number past float64, expected {declared}") from None
    return floats if declared.is_list else floats[0]


def _raw(declared: FieldType, value: str, name: str, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if declared.name == "bytes" else value.encode("utf-8")
    except ValueError as e:
        raise DataError(f"{where}: {name!r} is {value!r:.60}, which is no {declared} ({e})") from None


def _kind(value: Any) -> str:
    if isinstance(value, list):
        kinds = {_kind(v) for v in value}
        if not kinds:
            return "[]"
        inner = _common(kinds)
        return f"{inner.name}[]" if isinstance(inner, FieldType) and not inner.has_offsets else "a list of other things"
    if isinstance(value, str):
        return "not finite" if value in NOT_FINITE else "string"
    if isinstance(value, int) and not isinstance(value, bool):
        return "int64" if -(2**63) <= value < 2**63 else "uint64" if 0 <= value < 2**64 else "a number past 64 bits"
    names: dict[type[Any], str] = {bool: "bool", float: "float64", type(None): "null"}
    return names.get(type(value), "an object")


def _common(kinds: set[str]) -> FieldType | str:
    """One type for all kinds of values that a key was seen with."""
    if kinds == {"[]"}:
        return "always an empty list"
    if kinds and all(k.endswith("[]") for k in kinds):
        inner = _common({k.removesuffix("[]") for k in kinds} - {""})
        return FieldType(inner.name, True, True) if isinstance(inner, FieldType) else inner
    if kinds <= {"string", "not finite"} and kinds:
        return FieldType("string", False, True)
    numbers = kinds - {"not finite"}
    for name, holds in (
        ("bool", {"bool"}),
        ("int64", {"int64"}),
        ("uint64", {"int64", "uint64"}),
        ("float64", {"int64", "uint64", "float64"}),
    ):
        if numbers and numbers <= holds and (numbers == kinds or name == "float64"):
            return FieldType(name, False, True)
    return " and ".join(sorted(kinds)) or "always null"
