"""Extent tables: what lies outside the buffer is refused, whatever the numbers say."""

from typing import Any

import numpy as np
import pytest

from tokenyard.errors import DataError
from tokenyard.formats.extents import Extents


def table(starts: Any, lengths: Any, num_bytes: int = 16, dtype: str = "<u2", mapped: bool = True) -> Extents:
    return Extents(
        buffer=np.arange(num_bytes, dtype=np.uint8),
        starts=np.array(starts, np.int64),
        lengths=np.array(lengths, np.int64),
        dtype=np.dtype(dtype),
        mapped=mapped,
    )


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [([], []), ([0], [8]), ([16], [0]), ([0, 4, 4], [2, 0, 6]), ([14, 0, 7], [1, 1, 4]), ([5], [5])],
)
def test_rows_inside_the_buffer_are_fine(starts: list[int], lengths: list[int]) -> None:
    extents = table(starts, lengths)
    assert extents.check("here") is extents


@pytest.mark.parametrize(
    ("start", "length"),
    [(0, 9), (-1, 1), (17, 0), (16, 1), (0, -1), (0, 2**62), (0, 2**63 - 1), (-(2**63), 1), (2**63 - 1, 1), (15, 1)],
)
def test_a_row_outside_the_buffer_is_refused_with_its_place(start: int, length: int) -> None:
    message = (
        f"here: row 1 of the block would be {length} items from byte {start} on, outside its 16 bytes; the shard or"
    )
    with pytest.raises(DataError, match=message):
        table([0, start], [1, length]).check("here")


def test_items_of_rows_that_lie_together_share_the_memory() -> None:
    extents = table([2, 6, 6, 10], [2, 0, 2, 1])
    assert extents.is_flat
    items = extents.items(0, 4)
    assert np.shares_memory(items, extents.buffer)
    assert items.tolist() == [0x0302, 0x0504, 0x0706, 0x0908, 0x0B0A]
    assert extents.items(1, 2).tolist() == []
    assert extents.items(2, 2).tolist() == []


def test_items_of_rows_that_lie_apart_are_joined() -> None:
    extents = table([8, 0, 3], [1, 2, 1])
    assert not extents.is_flat
    assert extents.items(0, 3).tolist() == [0x0908, 0x0100, 0x0302, 0x0403]
    assert extents.items(2, 3).tolist() == [0x0403]


def test_a_map_costs_no_more_than_the_places_of_its_rows() -> None:
    assert table([0, 2], [1, 1]).memory_bytes == 32
    assert table([0, 2], [1, 1], mapped=False).memory_bytes == 48
