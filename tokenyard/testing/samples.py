"""Rows for tests: the values at the edge of every type, and ordinary corpora of a few hundred rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenyard.rows import RowBatch
from tokenyard.schema import FieldType, Schema

NUMBER_TYPES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool",
)  # fmt: skip
FIELD_TYPES = (*NUMBER_TYPES, *(f"{t}[]" for t in NUMBER_TYPES), "string", "bytes")

_TEXTS = (
    "",
    "plain",
    "a line\nand another\r\nand a last one\r",
    "tab\tand \"quotes\", 'single' ones, back\\slashes, commas; ends",
    "\0nul\0",
    "naïve 漢字 🤖 e\u0301 \u202e",
    "\ufeffmark",
    "null",
    "NaN",
    "\\N",
    "[1, 2]",
    " space around ",
    "\x1b\x7f\x85\u2028\u2029",
)


def edge_ids(token_dtype: str) -> list[int]:
    """Token ids at every edge that the dtype has room for."""
    largest = min(int(np.iinfo(token_dtype).max), 2**32 - 1)
    return [i for i in (0, 1, 255, 256, 32767, 32768, 65534, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1) if i <= largest]


def edge_values(name: str) -> list[Any]:
    """Values at the edge of a scalar field type, or lists of them."""
    type = FieldType.parse(name)
    if type.is_list:
        items = edge_values(type.name)
        return [[], items[:1], items, [*reversed(items)], [], items[-1:]]
    if type.name == "string":
        return list(_TEXTS)
    if type.name == "bytes":
        return [b"", bytes(range(256)), b"\0", b"\n", b"plain", b'"', "漢".encode()]
    if type.name == "bool":
        return [True, False, True]
    if type.name.startswith("float"):
        return _edge_floats(type)
    info = np.iinfo(type.name)
    return sorted({int(info.min), int(info.min) + 1, 0, 1, 100, int(info.max) - 1, int(info.max)})


def _edge_floats(type: FieldType) -> list[Any]:
    info = np.finfo(type.name)
    payload = np.array([0x7FF8DEADBEEF0001], np.uint64).view(np.float64)[0]
    numbers = [0.0, -0.0, 1.0, -1.5, 1 / 3, np.nan, payload, np.inf, -np.inf]
    numbers += [info.max, info.min, info.tiny, info.smallest_subnormal, 1 + info.eps]
    return [float(x if np.isnan(x) else type.dtype.type(x)) for x in numbers]


def zero_value(name: str) -> Any:
    """The zero or empty value of a field type."""
    type = FieldType.parse(name)
    if type.is_list:
        return []
    return {"string": "", "bytes": b""}[name] if type.is_binary else type.dtype.type(0).item()


def field_batch(name: str) -> tuple[Schema, RowBatch]:
    """Rows with fields of the types ``name`` and ``name?``: every edge value, and nulls among them."""
    schema = Schema(token_dtype="uint16", fields={"always": name, "maybe": name + "?"})
    values = edge_values(name)
    maybe = [None, *values[:-1], None] if len(values) % 2 else [None, *values[:-1]]
    always = [*values, values[0]][: len(maybe)]
    tokens = [np.arange(i % 3) for i in range(len(maybe))]
    return schema, RowBatch.from_rows(tokens, schema, {"always": always, "maybe": maybe})


def documents(num_rows: int = 200, *, longest: int = 40, seed: int = 0) -> tuple[Schema, RowBatch]:
    """Rows of ragged lengths, empty ones among them, with a field of each kind; ``mask`` is as long as the tokens."""
    rng = np.random.default_rng(seed)
    schema = Schema(
        token_dtype="uint32",
        vocab_size=70000,
        eos_token_id=0,
        fields={
            "mask": "uint8[]",
            "spans": "int32[]?",
            "source": "string?",
            "doc_id": "int64",
        },
    )
    lengths = rng.integers(0, longest + 1, num_rows)
    lengths[: min(3, num_rows)] = 0
    tokens = [rng.integers(0, 70000, n) for n in lengths]
    fields = {
        "mask": [rng.integers(0, 2, n).astype(np.uint8) for n in lengths],
        "spans": [None if i % 7 == 3 else np.arange(-i, -i + i % 4, dtype=np.int32) for i in range(num_rows)],
        "source": [None if i % 5 == 0 else f"source {i % 3}\n" for i in range(num_rows)],
        "doc_id": [i * (1 << 40) - 5 for i in range(num_rows)],
    }
    return schema, RowBatch.from_rows(tokens, schema, fields)


def packed(num_rows: int = 96, *, seq_len: int = 32, seed: int = 0) -> tuple[Schema, RowBatch]:
    """Rows of one length, with a mask as long as the tokens and a list that is not."""
    rng = np.random.default_rng(seed)
    schema = Schema(token_dtype="uint16", fields={"mask": "uint8[]", "lengths": "uint32[]"})
    tokens = [rng.integers(0, 65536, seq_len) for _ in range(num_rows)]
    fields = {
        "mask": [rng.integers(0, 2, seq_len).astype(np.uint8) for _ in range(num_rows)],
        "lengths": [np.array([seq_len // 2, seq_len - seq_len // 2]) for _ in range(num_rows)],
    }
    return schema, RowBatch.from_rows(tokens, schema, fields)
