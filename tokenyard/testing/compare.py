"""Equality of rows, to the bit, with the place where they differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.rows import Column, RowBatch


def assert_same_rows(found: Iterable[RowBatch], expected: RowBatch) -> None:
    """Tokens, lengths and every field are equal; NaN equals NaN, and nothing else equals what has other bits."""
    batches = list(found)
    if not len(expected):
        assert sum(len(b) for b in batches) == 0
        return
    rows = RowBatch.concat(batches)
    assert rows.lengths.tolist() == expected.lengths.tolist()
    assert_same_items("tokens", rows.tokens, expected.tokens)
    assert rows.fields.keys() == expected.fields.keys()
    for name, column in expected.fields.items():
        _assert_same_column(name, rows.fields[name], column)


def assert_same_items(what: str, found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Equal numbers of one kind: floats to the bit, integers whatever their width."""
    assert found.shape == expected.shape, what
    if expected.dtype.kind == "f":
        assert found.dtype == expected.dtype, what
        bits = f"u{expected.dtype.itemsize}"
        differs = (found.view(bits) != expected.view(bits)) & ~(np.isnan(found) & np.isnan(expected))
    else:
        assert (found.dtype.kind == "b") == (expected.dtype.kind == "b"), what
        differs = found != expected
    at = np.flatnonzero(differs)
    assert not len(at), f"{what}: item {at[0]} is {found[at[0]]}, expected {expected[at[0]]}"


def _assert_same_column(name: str, found: Column, expected: Column) -> None:
    assert found.type == expected.type, name
    valid = _valid(expected)
    assert _valid(found).tolist() == valid.tolist(), f"nulls of field {name!r}"
    rows = np.flatnonzero(valid)
    if expected.offsets is None:
        assert found.offsets is None, name
        assert_same_items(f"field {name!r}", found.values[rows], expected.values[rows])
        return
    assert found.offsets is not None, name
    # A null row's items don't count, whatever lies there.
    assert np.diff(found.offsets)[rows].tolist() == np.diff(expected.offsets)[rows].tolist(), f"lengths of {name!r}"
    assert_same_items(f"field {name!r}", _items(found, rows), _items(expected, rows))


def _valid(column: Column) -> NDArray[np.bool_]:
    return np.ones(len(column), bool) if column.valid is None else column.valid


def _items(column: Column, rows: NDArray[np.int64]) -> NDArray[Any]:
    assert column.offsets is not None
    parts = [column.values[column.offsets[i] : column.offsets[i + 1]] for i in rows.tolist()]
    return np.concatenate(parts) if parts else column.values[:0]
