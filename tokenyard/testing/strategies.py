"""Hypothesis strategies for schemas and rows: any that a corpus can hold."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tokenyard.rows import RowBatch
from tokenyard.schema import TOKEN_DTYPES, FieldType, Schema
from tokenyard.testing.samples import FIELD_TYPES, edge_ids, edge_values

_FIELD_NAMES = ("mask", "source", "doc-id", "score", "_x", "A9_b-c", "valid", "text", "json", "npy")


def token_ids(token_dtype: str) -> st.SearchStrategy[int]:
    """Ids that fit the dtype, those at its edges often."""
    edges = edge_ids(token_dtype)
    return st.one_of(st.integers(0, edges[-1]), st.sampled_from(edges))


def token_rows(token_dtype: str, *, max_rows: int = 12, max_tokens: int = 12) -> st.SearchStrategy[list[list[int]]]:
    """Rows of token ids, empty ones and none at all among them."""
    return st.lists(st.lists(token_ids(token_dtype), max_size=max_tokens), max_size=max_rows)


def field_types() -> st.SearchStrategy[FieldType]:
    """Every type of an extra field, nullable or not."""
    return st.sampled_from([FieldType.parse(name + mark) for name in FIELD_TYPES for mark in ("", "?")])


def schemas(*, max_fields: int = 4) -> st.SearchStrategy[Schema]:
    """Schemas that can be written."""
    fields = st.dictionaries(st.sampled_from(_FIELD_NAMES), field_types(), max_size=max_fields)
    return st.builds(Schema, token_dtype=st.sampled_from(TOKEN_DTYPES), fields=fields)


def field_values(type: FieldType) -> st.SearchStrategy[Any]:
    """Python values of a field, None where it may be null, those at its type's edges often."""
    values = st.one_of(_values(type), st.sampled_from(edge_values(str(type).removesuffix("?"))))
    return st.one_of(st.none(), values) if type.nullable else values


def _values(type: FieldType) -> st.SearchStrategy[Any]:
    if type.is_list:
        return st.lists(_values(FieldType.parse(type.name)), max_size=6)
    if type.name == "string":
        return st.text(max_size=12)
    if type.name == "bytes":
        return st.binary(max_size=12)
    if type.name == "bool":
        return st.booleans()
    if type.name.startswith("float"):
        return st.floats(width={"float16": 16, "float32": 32, "float64": 64}[type.name])  # type: ignore[arg-type]
    bits = 8 * type.dtype.itemsize
    low, high = (0, 2**bits - 1) if type.dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(low, high)


@st.composite
def row_batches(draw: st.DrawFn, schema: Schema, *, max_rows: int = 12, max_tokens: int = 12) -> RowBatch:
    """Rows that keep to ``schema``."""
    tokens = draw(token_rows(schema.token_dtype, max_rows=max_rows, max_tokens=max_tokens))
    fields = {
        name: draw(st.lists(field_values(type), min_size=len(tokens), max_size=len(tokens)))
        for name, type in schema.fields.items()
    }
    return RowBatch.from_rows(tokens, schema, fields)


@st.composite
def corpora(draw: st.DrawFn, *, max_rows: int = 12) -> tuple[Schema, RowBatch]:
    """A schema and rows that keep to it."""
    schema = draw(schemas())
    return schema, draw(row_batches(schema, max_rows=max_rows))
