"""Checksums of cells: the same for pieces of any size, and those of XXH3 as others compute it."""

import numpy as np
import pytest

from tokenyard.storage.cells import CELL_BYTES, CellHasher, num_cells, whole_cells, wrong_cells

# XXH3-64 of a cell of zeros, of the byte 0 alone and of b"a", as the `xxhsum` of xxHash 0.8 prints them.
A = 0xE6C632B61E964E1F
BYTE_0 = 0xC44BDFF4074EECDB


def cells_of(*parts: bytes) -> list[int]:
    hasher = CellHasher()
    for part in parts:
        hasher.update(memoryview(part))
    found = hasher.so_far()
    assert found.dtype == np.int64
    return [int(cell) for cell in found.view(np.uint64)]


def test_a_checksum_is_the_xxh3_of_the_cell() -> None:
    assert cells_of(b"a") == [A]
    assert cells_of(b"\0") == [BYTE_0]
    assert cells_of(b"") == []


@pytest.mark.parametrize("num_bytes", [1, CELL_BYTES - 1, CELL_BYTES, CELL_BYTES + 1, 3 * CELL_BYTES + 17])
@pytest.mark.parametrize("step", [1000, CELL_BYTES, CELL_BYTES + 1, 5 * CELL_BYTES])
def test_pieces_of_any_size_give_the_same(num_bytes: int, step: int) -> None:
    data = np.random.default_rng(num_bytes).bytes(num_bytes)
    expected = [cell for at in range(0, num_bytes, CELL_BYTES) for cell in cells_of(data[at : at + CELL_BYTES])]
    assert cells_of(*[data[at : at + step] for at in range(0, num_bytes, step)]) == expected
    assert len(expected) == num_cells(num_bytes)


def test_what_came_so_far_can_be_asked_for_in_between() -> None:
    hasher = CellHasher()
    hasher.update(memoryview(b"a"))
    assert hasher.so_far().tolist() == hasher.so_far().tolist()
    hasher.update(memoryview(bytes(CELL_BYTES)))
    assert [int(c) for c in hasher.so_far().view(np.uint64)] == cells_of(b"a" + bytes(CELL_BYTES))


def test_the_first_wrong_cell_is_told_by_its_bytes() -> None:
    data = bytearray(np.random.default_rng(1).bytes(3 * CELL_BYTES + 17))
    cells = np.array(cells_of(bytes(data)), np.uint64).view(np.int64)
    assert wrong_cells(data, 0, cells) is None
    data[-1] ^= 1
    assert wrong_cells(data, 0, cells) == (3 * CELL_BYTES, 3 * CELL_BYTES + 17)
    data[CELL_BYTES] ^= 1
    assert wrong_cells(data, 0, cells) == (CELL_BYTES, 2 * CELL_BYTES)
    assert wrong_cells(data[2 * CELL_BYTES : 3 * CELL_BYTES], 2 * CELL_BYTES, cells) is None


def test_a_range_is_widened_to_whole_cells() -> None:
    assert whole_cells(CELL_BYTES + 5, CELL_BYTES + 6, 3 * CELL_BYTES) == (CELL_BYTES, 2 * CELL_BYTES)
    assert whole_cells(0, 2 * CELL_BYTES + 1, 2 * CELL_BYTES + 9) == (0, 2 * CELL_BYTES + 9)
