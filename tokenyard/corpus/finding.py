"""Blocks and rows found by bisection: parts of compiled loops."""

from typing import Any

from tokenyard.corpus.casts import load_i64
from tokenyard.corpus.compiling import part_of_loops
from tokenyard.corpus.records import ITEMS, OFFSETS, ROWS


@part_of_loops
def last_at_most(address: int, count: int, value: int) -> int:
    """The last of ``count`` increasing numbers, from ``address`` on, that is at most ``value``; the first one is."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) >> 1
        if load_i64(address + 8 * middle) <= value:
            low = middle
        else:
            high = middle
    return low


@part_of_loops
def block_of(begins: Any, position: int) -> int:
    """The block that holds a position: the last one that begins there or before."""
    low, high = 0, len(begins) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if begins[middle] <= position:
            low = middle
        else:
            high = middle
    return low


@part_of_loops
def place_in_row(
    begins: Any, slots: Any, records: Any, position: int, block: int, row: int
) -> tuple[int, int, int, int]:
    """Where a token of the stream stands in its row, how many tokens the row has from there on, its block and its row.

    The second is 0 where the block is not there. ``block``, ``row``: where it is, or one before; the row below 0 where
    nobody knows, as it also comes back where it takes no search.
    """
    while begins[block + 1] <= position:
        block, row = block + 1, -1
    if slots[block] < 0:
        return 0, 0, block, -1
    record, local = records[slots[block]], position - begins[block]
    if record[ITEMS]:
        within = local % record[ITEMS]
        return within, record[ITEMS] - within, block, -1
    offsets = record[OFFSETS]
    local += load_i64(offsets)
    if row < 0:
        row = last_at_most(offsets, record[ROWS] + 1, local)
    while load_i64(offsets + 8 * row + 8) <= local:
        row += 1
    return local - load_i64(offsets + 8 * row), load_i64(offsets + 8 * row + 8) - local, block, row
