"""Ascending ranges of integers, read as one sequence: what is left of an epoch when lanes stopped on their way."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tokenyard.cached import cached_property

Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class Intervals:
    """Disjoint half-open ranges in ascending order, none of them empty; entry r of the sequence is a value in one.

    Attributes:
        ranges: (start, stop) of each.
    """

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Intervals:
        """Return ascending ranges without those that are empty, and with neighbours joined."""
        found: list[tuple[int, int]] = []
        for start, stop in ranges:
            if start >= stop:
                continue
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, stop))
        return cls(tuple(found))

    @classmethod
    def whole(cls, size: int) -> Intervals:
        """Return 0..size-1."""
        return cls.of([(0, size)])

    @cached_property
    def size(self) -> int:
        """How many values there are."""
        return self._ranks[-1]

    @cached_property
    def _ranks(self) -> list[int]:
        """The rank of each range's first value, and the size."""
        return list(accumulate((stop - start for start, stop in self.ranges), initial=0))

    @cached_property
    def _starts(self) -> Int64Array:
        return np.array([start for start, _ in self.ranges], np.int64)

    @cached_property
    def _first_ranks(self) -> Int64Array:
        return np.array(self._ranks[:-1], np.int64)

    def values(self, ranks: Int64Array) -> Int64Array:
        """Return the value at each rank in [0, size); int64 of the same shape, which may be `ranks` itself."""
        if len(self.ranges) == 1:
            start = self.ranges[0][0]
            return ranks + start if start else ranks
        which = np.searchsorted(self._first_ranks, ranks, side="right") - 1
        found: Int64Array = ranks + (self._starts - self._first_ranks)[which]
        return found

    def rank(self, value: int) -> int | None:
        """Return the rank of a value, or None where it is in no range."""
        before = 0
        for start, stop in self.ranges:
            if start <= value < stop:
                return before + value - start
            before += stop - start
        return None

    def without(self, ranks: Intervals) -> Intervals:
        """Return what is left when the values at some ranks are taken out."""
        left: list[tuple[int, int]] = []
        low = 0
        for start, stop in ranks.ranges:
            left += self._values_between(low, start)
            low = stop
        return Intervals((*left, *self._values_between(low, self.size)))

    def scaled(self, old: int, new: int) -> Intervals:
        """Return the same stretch of a line in steps of `new`, where it was in steps of `old`: whole steps only."""
        return Intervals.of((-(-start * old // new), stop * old // new) for start, stop in self.ranges)

    def _values_between(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the ranges of the values at ranks low .. high."""
        if low >= high:
            return []
        first, last = bisect_right(self._ranks, low) - 1, bisect_left(self._ranks, high) - 1
        found = list(self.ranges[first : last + 1])
        found[-1] = found[-1][0], found[-1][0] + high - self._ranks[last]
        found[0] = found[0][0] + low - self._ranks[first], found[0][1]
        return found
