"""Which source of a mixture each draw takes: an even schedule of fixed period, exact at any draw without history.

Each source has a quota of the period's draws, and its draws lie as evenly in it as they can (`order/1`). Of n sources
one with share w is never further from its share than (1 + w (n - 2)) / 2 draws: less than one for up to three sources,
and more where many small ones of equal weights come due at one moment, and a large one was drawn in their place.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tokenyard.cached import cached_property
from tokenyard.errors import ConfigError

Int64Array = NDArray[np.int64]

#: Draws after which a schedule begins again.
PERIOD = 1 << 16
#: A share that would round to no draw in a period.
SMALLEST_SHARE = Fraction(1, 2 * PERIOD)


@dataclass(frozen=True, eq=False)
class Schedule:
    """One period of draws. Arrays are shared and read-only.

    Attributes:
        quotas: draws of each source in a period; they sum to `PERIOD`.
        source: int64[PERIOD], the source of each draw.
        nth: int64[PERIOD], how many draws of the same source come before it in the period.
    """

    quotas: tuple[int, ...]
    source: Int64Array
    nth: Int64Array

    def counts_before(self, source: int, draws: Int64Array) -> Int64Array:
        """Return how many of the first `draws` draws are of a source; int64 of the same shape."""
        periods, rest = np.divmod(draws, PERIOD)
        found: Int64Array = periods * self.quotas[source] + np.searchsorted(self._places[source], rest)
        return found

    def draw_of(self, source: int, nth: int) -> int:
        """Return the draw that is the nth of a source, counted from 0. Any int: how far a run may go has no limit."""
        periods, rest = divmod(nth, self.quotas[source])
        return periods * PERIOD + int(self._places[source][rest])

    @cached_property
    def _places(self) -> list[Int64Array]:
        """The draws of each source in a period, ascending."""
        return [np.flatnonzero(self.source == k) for k in range(len(self.quotas))]


def quotas(weights: Sequence[float], labels: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the draws of each source in a period, by largest remainder, ties to the earlier source.

    Args:
        weights: their weights.
        labels: what messages call them; by their numbers here when not given.

    Raises:
        ConfigError: a weight is not a finite number above 0, or below 1/131,072 of all.
    """
    labels = labels or [f"source {k}" for k in range(len(weights))]
    for k, weight in enumerate(weights):
        if not 0 < weight < math.inf:
            raise ConfigError(f"weight of {labels[k]}: expected a finite number above 0, found {weight!r}")
    # In exact fractions: floats would take remainders that are equal for different ones.
    total = sum(map(Fraction, weights))
    shares = [Fraction(weight) / total for weight in weights]
    for k, share in enumerate(shares):
        if share < SMALLEST_SHARE:
            raise ConfigError(
                f"weight of {labels[k]}: {weights[k]:g} is {float(share):.2g} of all weights, and less than 1/131072 "
                "would never be drawn; raise it, or leave the source out"
            )
    exact = [share * PERIOD for share in shares]
    counts = [math.floor(draws) for draws in exact]
    by_remainder = sorted(range(len(exact)), key=lambda k: (counts[k] - exact[k], k))
    for k in by_remainder[: PERIOD - sum(counts)]:
        counts[k] += 1
    if 0 in counts:
        k = counts.index(0)
        raise ConfigError(
            f"weight of {labels[k]}: {weights[k]:g} is {float(shares[k]):.2g} of all weights, less than one draw in "
            f"{PERIOD}, and with so many sources it would never be drawn; raise it, or leave the source out"
        )
    return tuple(counts)


@lru_cache(maxsize=64)
def schedule(of_quotas: tuple[int, ...]) -> Schedule:
    """Return the schedule of quotas that sum to `PERIOD`."""
    sources = np.repeat(np.arange(len(of_quotas)), of_quotas)
    nth = np.concatenate([np.arange(count) for count in of_quotas])
    # (2j+1)/(2c) for different c may tie exactly, which floats would miss: compare whole numbers where it matters.
    place = _sorted_by_place(sources, nth, np.array(of_quotas)[sources])
    source, nth = sources[place], nth[place]
    source.flags.writeable = nth.flags.writeable = False
    return Schedule(quotas=of_quotas, source=source, nth=nth)


def _sorted_by_place(sources: Int64Array, nth: Int64Array, counts: Int64Array) -> Int64Array:
    """Return the order of draws by ((2j+1)/(2c), source).

    Fractions with denominators up to 2**17 are equal or at least 2**-34 apart, so that 2**-52 tells all of them apart
    once equal ones are made equal: floor(fraction * 2**40) does, as two fractions with the same floor are equal.
    """
    place = ((2 * nth + 1) << 40) // (2 * counts)
    return np.lexsort((sources, place))
