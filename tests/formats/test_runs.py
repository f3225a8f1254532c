"""Runs of bytes: whatever way they are copied, they are those that plain slices give."""

import numpy as np
import pytest

from tokenyard.formats import runs


def slices(buffer: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> bytes:
    return b"".join(buffer[a : a + n].tobytes() for a, n in zip(starts, sizes, strict=True))


@pytest.mark.parametrize("count", [0, 1, 5, 64, 65, 1000])
@pytest.mark.parametrize("kind", ["equal", "ragged", "zero", "with nulls", "any order", "overlapping", "long"])
def test_runs_are_those_of_slices(count: int, kind: str) -> None:
    rng = np.random.default_rng(count)
    sizes = rng.integers(0, 9, count)
    if kind in ("equal", "overlapping"):
        sizes[:] = 7
    if kind == "zero":
        sizes[:] = 0
    if kind == "long":
        sizes[:3] = 40_000
    starts = np.cumsum(sizes + 3) - sizes
    buffer = rng.integers(0, 256, int((starts + sizes).max(initial=0)) + 5, dtype=np.uint8)
    if kind == "with nulls":
        starts[sizes < 4], sizes[sizes < 4] = 0, 0
    if kind == "any order":
        order = rng.permutation(count)
        starts, sizes = starts[order], sizes[order]
    if kind == "overlapping":
        sizes += rng.integers(0, 5, count)
    assert runs.take(buffer, starts, sizes).tobytes() == slices(buffer, starts, sizes)


@pytest.mark.parametrize("rows", [0, 1, 3, 200])
@pytest.mark.parametrize("ragged", [False, True])
def test_parts_are_put_together_row_by_row(rows: int, ragged: bool) -> None:
    rng = np.random.default_rng(rows)
    counts = [rng.integers(0, 5, rows) if ragged else np.full(rows, n) for n in (2, 0, 3)]
    values = [
        rng.integers(0, 2**16, int(n.sum())).astype(dtype)
        for n, dtype in zip(counts, ("<u2", "u1", "<i8"), strict=True)
    ]
    expected = b"".join(
        v[n[:row].sum() : n[: row + 1].sum()].tobytes()
        for row in range(rows)
        for v, n in zip(values, counts, strict=True)
    )
    found = runs.interleave([(v, n * v.itemsize) for v, n in zip(values, counts, strict=True)])
    assert found.tobytes() == expected
