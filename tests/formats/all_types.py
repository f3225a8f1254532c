"""A few rows that hold a field of every type, with the values that formats of text and their readers trip over."""

import base64
from typing import Any

import numpy as np

from tokenyard import Corpus
from tokenyard.formats.shared.columns import column_of_bytes, column_of_numbers
from tokenyard.rows import Column, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TEXTS = [
    "plain",
    "",
    'comma, "quotes" and \\ backslash',
    "line\nbreak, carriage\rreturn, both\r\n",
    " spaces around ",
    "NUL \0 and tab \t",
    "日本語 \U0001f600 \u2028 \x85",
    "NA",
    "null",
    "NaN",
    '{"tokens": [1, 2]}',
    "007",
]
TOKENS = [[1, 2, 3], [], [65535], [0], list(range(300)), [7, 7, 7, 7], [], [12], [5, 6], [50256], [1], [2, 3]]
NUM_ROWS = len(TOKENS)


def _limits(name: str) -> list[int]:
    info = np.iinfo(name)
    return [int(info.min), int(info.max), 0, 1]


def _repeat(values: list[Any]) -> list[Any]:
    return [values[i % len(values)] for i in range(NUM_ROWS)]


def _with_nulls(values: list[Any]) -> list[Any]:
    return [None if i % 3 == 1 else v for i, v in enumerate(values)]


def values(*, finite: bool = False) -> dict[str, tuple[str, list[Any]]]:
    """Type and values of every field; ``finite`` leaves out NaN, infinities and integers past 63 bits."""
    found: dict[str, tuple[str, list[Any]]] = {}
    for name in INTEGERS:
        limits = [min(v, 2**63 - 1) for v in _limits(name)] if finite else _limits(name)
        found[f"one_{name}"] = (name, _repeat(limits))
        found[f"many_{name}"] = (f"{name}[]", _repeat([limits, [], [limits[1]]]))
    special = [] if finite else [float("nan"), float("inf"), float("-inf")]
    for name in ("float16", "float32", "float64"):
        floats = [float(np.dtype(name).type(v)) for v in [0.1, -0.0, 1.0, 1e-4, 3.25, *special]]
        found[f"one_{name}"] = (name, _repeat(floats))
        found[f"many_{name}"] = (f"{name}[]", _repeat([floats, [], [0.5]]))
    found["one_bool"] = ("bool", _repeat([True, False, False]))
    found["many_bool"] = ("bool[]", _repeat([[True, False], [], [False]]))
    found["text"] = ("string", TEXTS)
    found["raw"] = ("bytes", _repeat([b"", b'\0\xff\n,"', b"abc"]))
    for name, (type, items) in list(found.items()):
        if name in ("one_int64", "one_float64", "one_bool", "many_uint8", "text", "raw"):
            found[f"maybe_{name}"] = (f"{type}?", _with_nulls(items))
    found["loss_mask"] = ("uint8[]", [[t % 2 for t in row] for row in TOKENS])
    return found


def schema(*, finite: bool = False, token_dtype: str = "uint16") -> Schema:
    return Schema(
        token_dtype=token_dtype, fields={n: FieldType.parse(t) for n, (t, _) in values(finite=finite).items()}
    )


def rows(*, finite: bool = False, token_dtype: str = "uint16") -> RowBatch:
    columns = {n: _column(n, FieldType.parse(t), v) for n, (t, v) in values(finite=finite).items()}
    tokens = np.array([t for row in TOKENS for t in row], token_dtype)
    return RowBatch(tokens=tokens, offsets=offsets_of([len(row) for row in TOKENS]), fields=columns)


def _column(name: str, type: FieldType, items: list[Any]) -> Column:
    if type.is_binary:
        return column_of_bytes(type, [v.encode() if isinstance(v, str) else v for v in items])
    return column_of_numbers(name, type, items, str)


def shown(value: Any, *, bytes_as: str = "hex") -> Any:
    """A value as JSON can carry it without loss: bytes as text, floats as their shortest text."""
    if isinstance(value, bytes):
        return value.hex() if bytes_as == "hex" else base64.b64encode(value).decode()
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, np.ndarray):
        return [shown(v) for v in value.tolist()]
    return [shown(v) for v in value] if isinstance(value, list) else value


def expected(*, finite: bool = False, bytes_as: str = "hex") -> list[dict[str, Any]]:
    """The rows as ``shown``, as scripts that run in the peers' environment print them."""
    found: list[dict[str, Any]] = [{"tokens": list(row)} for row in TOKENS]
    for name, (_, items) in values(finite=finite).items():
        for row, value in zip(found, items, strict=True):
            row[name] = shown(value, bytes_as=bytes_as)
    return found


def read(corpus: Corpus) -> list[dict[str, Any]]:
    """The rows of a corpus as ``shown``."""
    return [{n: shown(v) for n, v in corpus.row(i).items()} for i in range(len(corpus))]
