"""Tokens of every stored type and length, at any byte, against numpy's own cast."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.corpus import kernels
from tokenyard.corpus.block_table import BlockTable, Entry
from tokenyard.corpus.records import DONE
from tokenyard.formats.extents import Extents
from tokenyard.rows import offsets_of

TYPES = [order + kind for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8") for order in "<>"]


def table_of(rows: list[np.ndarray], gaps: list[int], dtype: np.dtype) -> tuple[BlockTable, np.ndarray]:
    """Rows in a buffer, each after a gap of some bytes; and the buffer."""
    starts, data = [], b""
    for row, gap in zip(rows, gaps, strict=True):
        data += b"\xa5" * gap
        starts.append(len(data))
        data += row.tobytes()
    lengths = np.array([len(row) for row in rows], np.int64)
    extents = Extents(
        buffer=np.frombuffer(data + b"\xa5", np.uint8),
        starts=np.array(starts, np.int64),
        lengths=lengths,
        dtype=dtype,
        mapped=True,
    )
    entry = Entry.of(extents, offsets_of(lengths))
    return BlockTable.of([(0, len(rows), entry)], dtype), extents.buffer


@pytest.mark.parametrize("type_name", TYPES)
@given(data=st.data())
def test_rows_are_cast_as_numpy_casts_them(type_name: str, data: st.DataObject) -> None:
    dtype = np.dtype(type_name)
    # Around what a cache line holds, and several of them.
    lengths = data.draw(st.lists(st.integers(0, 4 * 64 // dtype.itemsize), min_size=1, max_size=3))
    seed = data.draw(st.integers(0, 1 << 30))
    rng = np.random.default_rng(seed)
    rows = [np.frombuffer(rng.bytes(length * dtype.itemsize), dtype) for length in lengths]
    gaps = data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
    table, held = table_of(rows, gaps, dtype)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=4)), np.int64)
    wanted = [rows[i].astype(np.int64) for i in chosen]
    offsets = offsets_of(np.array([len(row) for row in wanted], np.int64))
    out = np.full(offsets[-1] + 8, -7)
    assert kernels.rows_as_int64(*table.arrays, chosen, offsets, out) == DONE
    assert out[: offsets[-1]].tolist() == [item for row in wanted for item in row.tolist()]
    assert (out[offsets[-1] :] == -7).all()
    for i, row in zip(chosen, wanted, strict=True):
        inputs, labels = (np.full((3, len(row) + 2), -7) for _ in range(2))
        one, line, shift = np.array([i]), np.array([1]), data.draw(st.integers(0, 2))
        found = kernels.rows_as_lines(*table.arrays, one, len(row), line, shift, 5, -100, inputs, labels)
        assert found == DONE
        assert inputs[1].tolist() == [*row.tolist(), 5, 5]
        assert labels[1].tolist() == (row.tolist()[shift:] + [-100] * (2 + min(shift, len(row))))
        assert (inputs[[0, 2]] == -7).all()
        assert (labels[[0, 2]] == -7).all()
    del held
