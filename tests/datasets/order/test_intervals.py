"""Ranges read as one sequence do what plain lists of their values do."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.datasets.order.intervals import Intervals


@st.composite
def ascending(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ascending ranges, some empty, some that touch."""
    ranges, at = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=8)):
        ranges.append((at + gap, at + gap + length))
        at += gap + length
    return ranges


def values_of(ranges: list[tuple[int, int]]) -> list[int]:
    return [value for start, stop in ranges for value in range(start, stop)]


@given(ascending())
def test_a_sequence_is_its_ranges_one_after_another(ranges: list[tuple[int, int]]) -> None:
    found, expected = Intervals.of(ranges), values_of(ranges)
    assert found.size == len(expected)
    assert found.values(np.arange(found.size)).tolist() == expected if expected else not found.ranges
    assert [found.rank(value) for value in range(80)] == [
        expected.index(value) if value in expected else None for value in range(80)
    ]


@given(ascending())
def test_no_range_is_empty_and_neighbours_are_joined(ranges: list[tuple[int, int]]) -> None:
    found = Intervals.of(ranges).ranges
    assert all(start < stop for start, stop in found)
    assert all(a[1] < b[0] for a, b in pairwise(found))


@given(ascending(), st.data())
def test_values_come_in_the_shape_and_the_order_of_their_ranks(
    ranges: list[tuple[int, int]], data: st.DataObject
) -> None:
    found, expected = Intervals.of([*ranges, (100, 104)]), [*values_of(ranges), 100, 101, 102, 103]
    ranks = data.draw(st.lists(st.integers(0, found.size - 1), min_size=6, max_size=6))
    values = found.values(np.array(ranks).reshape(2, 3))
    assert values.shape == (2, 3)
    assert values.ravel().tolist() == [expected[rank] for rank in ranks]


@given(ascending(), st.data())
def test_taking_ranks_out_leaves_the_values_at_all_others(ranges: list[tuple[int, int]], data: st.DataObject) -> None:
    found, expected = Intervals.of(ranges), values_of(ranges)
    edges = sorted(data.draw(st.lists(st.integers(0, found.size), max_size=6)))
    taken = Intervals.of(zip(edges[::2], edges[1::2], strict=False))
    gone = set(values_of(list(taken.ranges)))
    left = [value for rank, value in enumerate(expected) if rank not in gone]
    assert values_of(list(found.without(taken).ranges)) == left


def test_a_whole_sequence_of_nothing_has_no_range() -> None:
    assert Intervals.whole(0).ranges == ()
    assert Intervals.whole(0).size == 0
    assert Intervals.whole(0).rank(0) is None
    assert Intervals.whole(3).without(Intervals.whole(3)) == Intervals.whole(0)


@given(ascending(), st.integers(1, 8), st.integers(1, 8))
def test_other_steps_cover_no_token_that_was_not_there_and_miss_less_than_a_step_at_each_end(
    ranges: list[tuple[int, int]], old: int, new: int
) -> None:
    found = Intervals.of(ranges)
    before = {token for value in values_of(list(found.ranges)) for token in range(value * old, value * old + old)}
    scaled = found.scaled(old, new)
    steps = values_of(list(scaled.ranges))
    after = {token for value in steps for token in range(value * new, value * new + new)}
    assert after <= before
    assert len(before - after) <= 2 * (new - 1) * len(found.ranges)
    if old % new == 0:
        assert after == before


def test_ranges_as_far_as_a_trillion_are_as_quick_as_small_ones() -> None:
    found = Intervals.of([(5, 10**12), (10**12 + 7, 2 * 10**12)])
    assert found.size == 2 * 10**12 - 12
    assert found.values(np.array([10**12 - 6, 10**12 - 5])).tolist() == [10**12 - 1, 10**12 + 7]
    assert found.rank(10**12 + 7) == 10**12 - 5
    assert found.without(Intervals.of([(1, found.size)])).ranges == ((5, 6),)
