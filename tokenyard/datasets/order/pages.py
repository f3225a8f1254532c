"""A permutation read in pages.

A training run asks for a few neighbours at a time, a little further in each lane at each step. What costs much, the
sort behind a window or a call of the Feistel network, is paid once for a page of them.
"""

from itertools import chain, pairwise, repeat
from operator import sub
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenyard.permutation.keyed import TABLE_LIMIT
from tokenyard.permutation.table_cache import TABLES

Int64Array = NDArray[np.int64]

# Positions in a page of a permutation too large for a table: few, yet a call costs nearly as much for one.
_PAGE_SIZE = 1 << 14
# Below this many positions a page, taking them one by one costs less than slicing.
_FEW = 4


class Permutation(Protocol):
    """A pure map of the positions 0..size-1 onto the samples 0..size-1.

    Attributes:
        size: positions in all.
        unit: positions that are permuted together: [0, unit), [unit, 2 unit) and so on. Up to `TABLE_LIMIT`
            computing one of them takes the table of the whole unit.
    """

    size: int
    unit: int

    def at(self, positions: Int64Array) -> Int64Array:
        """Return the sample at each of some ascending positions, int64[n] both, n > 0."""

    def whole_unit(self, number: int) -> Int64Array:
        """Return the samples of all positions of a unit; only asked of units up to `TABLE_LIMIT`."""


class Pages:
    """The samples of a permutation, kept page by page in `TABLES`. Safe to share by threads.

    A page is a unit where units are tables, else a short run of positions.

    Attributes:
        at_once: pages that are held at one time. Positions on more are taken for no walk: where there is a choice
            they are then computed one by one, and no page is kept.
    """

    def __init__(self, permutation: Permutation, *, at_once: int, page_size: int = _PAGE_SIZE) -> None:
        """Keep nothing yet. `page_size` is that of pages which are no units."""
        self.at_once = at_once
        self.has_tables = permutation.unit <= TABLE_LIMIT
        self.page_size = permutation.unit if self.has_tables else page_size
        self._permutation = permutation

    def samples(self, positions: Int64Array) -> Int64Array:
        """Return the sample at each of `positions`, int64[n] both, in any order, n > 0."""
        if not (positions[1:] < positions[:-1]).any():
            return self._ascending(positions)
        ascending = np.argsort(positions)
        out = np.empty_like(positions)
        out[ascending] = self._ascending(positions[ascending])
        return out

    def _ascending(self, positions: Int64Array) -> Int64Array:
        pages, bounds, offsets = cut(positions, self.page_size)
        if len(pages) > self.at_once and not self.has_tables:
            return self._permutation.at(positions)
        out = np.empty_like(positions)
        for first in range(0, len(pages), self.at_once):
            last = min(first + self.at_once, len(pages))
            tables = TABLES.get_many([(Pages._compute, self, page) for page in pages[first:last]])
            _take(tables, bounds[first : last + 1], offsets, out)
        return out

    def _compute(self, page: int) -> Int64Array:
        if self.has_tables:
            return self._permutation.whole_unit(page)
        start = page * self.page_size
        return self._permutation.at(np.arange(start, min(start + self.page_size, self._permutation.size)))


def cut(positions: Int64Array, size: int) -> tuple[list[int], list[int], Int64Array]:
    """Cut ascending positions where they go from one stretch of `size` positions to another.

    Returns:
        The numbers of the stretches met; their bounds in `positions`, one more than stretches; and for each position
        its offset in its stretch.
    """
    stretches = positions // size
    begins = np.empty(positions.size, np.bool_)
    begins[0] = True
    np.not_equal(stretches[1:], stretches[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return stretches[starts].tolist(), [*starts.tolist(), positions.size], positions - stretches * size


def _take(tables: list[NDArray[Any]], bounds: list[int], offsets: Int64Array, out: Int64Array) -> None:
    """Set `out` to each table at its offsets, from the first of the bounds to the last."""
    start, stop = bounds[0], bounds[-1]
    if stop - start < _FEW * len(tables):
        lengths = map(sub, bounds[1:], bounds)
        table_of_each = chain.from_iterable(map(repeat, tables, lengths))
        out[start:stop] = list(map(np.ndarray.item, table_of_each, offsets[start:stop].tolist()))
        return
    # Offsets are in range; the default mode would check them and copy once more.
    for table, (a, b) in zip(tables, pairwise(bounds), strict=True):
        table.take(offsets[a:b], out=out[a:b], mode="clip")
