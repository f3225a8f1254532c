"""How long rows are: counts of lengths, exact however many rows there are, out of row indexes alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus

Int64Array = NDArray[np.int64]

#: Shards whose row indexes are read unless all are asked for; those of a corpus that others made are there already.
INDEXED_SHARDS = 64
#: Bins end at 0, 1, 2, 4, 8 ... and at the largest number: each holds what is above the end before it.
_ENDS = np.concatenate([[0], 2 ** np.arange(63, dtype=np.int64), [np.iinfo(np.int64).max]])


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Lengths ``low`` .. ``high``, both among them, and how many have one of them."""

    low: int
    high: int
    count: int


class LengthCounts:
    """Counts lengths as they come; holds one number for each length that there is.

    Attributes:
        values: int64[k], the lengths that there are, ascending.
        counts: int64[k], how many have each.
    """

    def __init__(self) -> None:
        self.values: Int64Array = np.empty(0, np.int64)
        self.counts: Int64Array = np.empty(0, np.int64)

    def add(self, lengths: Int64Array) -> None:
        """Count some more."""
        values, counts = np.unique(lengths, return_counts=True)
        merged, places = np.unique(np.concatenate([self.values, values]), return_inverse=True)
        sums = np.zeros(len(merged), np.int64)
        np.add.at(sums, places, np.concatenate([self.counts, counts]))
        self.values, self.counts = merged.astype(np.int64), sums

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def total(self) -> int:
        """All lengths together."""
        return int((self.values * self.counts).sum())

    @property
    def mean(self) -> float:
        """The mean length; 0 of none."""
        return self.total / max(1, len(self))

    def quantile(self, share: float) -> float:
        """The length that a share of 0 to 1 stays below, between two where it lies there; 0 of none."""
        if not len(self):
            return 0.0
        place = share * (len(self) - 1)
        low, high = int(np.floor(place)), int(np.ceil(place))
        until = np.cumsum(self.counts)
        a, b = self.values[np.searchsorted(until, [low, high], side="right")].tolist()
        return float(a + (b - a) * (place - low))

    def bins(self) -> list[Bin]:
        """Counts in bins that double, from the first that isn't empty to the last."""
        if not len(self):
            return []
        which = np.searchsorted(_ENDS, self.values)
        sums = np.zeros(int(which[-1]) + 1, np.int64)
        np.add.at(sums, which, self.counts)
        return [
            Bin(low=int(_ENDS[k - 1]) + 1 if k else 0, high=int(_ENDS[k]), count=int(sums[k]))
            for k in range(int(which[0]), len(sums))
        ]


@dataclass(frozen=True, kw_only=True)
class RowLengths:
    """The lengths of rows of some shards, or of all."""

    counts: LengthCounts
    num_shards: int
    of_shards: int

    @property
    def is_whole(self) -> bool:
        """Whether those of all rows are counted."""
        return self.num_shards == self.of_shards

    @property
    def told(self) -> str:
        """What is counted, in words."""
        return "all rows" if self.is_whole else f"{self.num_shards:,} of {self.of_shards:,} shards, evenly spread"


def spread_shards(corpus: Corpus, at_most: int | None) -> list[int]:
    """Shards evenly spread over a corpus, ``at_most`` of them, or all."""
    count = len(corpus.manifest.shards)
    if at_most is None or at_most >= count:
        return list(range(count))
    return [(2 * k + 1) * count // (2 * at_most) for k in range(at_most)]


def row_lengths(corpus: Corpus, shards: list[int]) -> RowLengths:
    """Count lengths by the row indexes of some shards; no token is read. Raises DataError, StorageError."""
    counts = LengthCounts()
    for shard in shards:
        counts.add(np.diff(corpus.shard_offsets(shard)))
    return RowLengths(counts=counts, num_shards=len(shards), of_shards=len(corpus.manifest.shards))


def shards_to_index(corpus: Corpus) -> int | None:
    """How many shards' row indexes are read unless all are asked for; None: all.

    Those of a corpus that others made were read when it was opened.
    """
    shards = corpus.manifest.shards
    return INDEXED_SHARDS if len(shards) and shards[0].index is not None else None
