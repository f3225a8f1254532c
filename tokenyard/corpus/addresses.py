"""Where the rows of raw shards lie in memory, as arrays over shards, so that a batch is found without a loop over them.

A shard is *flat* when its tokens lie one after another (npy), and *regular* when its rows have one length and one
distance (packed rows in mds and tars). For both, the byte of a row or token is one multiplication away from its
position in the corpus; shards that are neither, or not entered yet, hold a number so far off that any index into
memory with it fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus.runs import MAX_ITEM_BYTES, memory_items
from tokenyard.formats.extents import Extents
from tokenyard.rows import Array, Offsets

_NOWHERE = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Position ``p`` of shard ``s`` lies at byte ``origin[s] + p * stride`` of the span of memory from ``low`` on.

    ``count`` items of ``dtype`` lie at each position: a row's tokens, or one token. Immutable, so that a gather works
    on what it holds while another thread enters a shard; ``owners`` keeps every entered shard's memory alive.
    """

    origin: Offsets
    stride: int
    count: int
    dtype: np.dtype[np.generic]
    low: int
    high: int
    owners: tuple[NDArray[np.uint8], ...]
    _views: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def empty(cls, num_shards: int, stride: int, count: int, dtype: np.dtype[np.generic]) -> Addresses:
        """No shard entered."""
        origin = np.full(num_shards, _NOWHERE, np.int64)
        return cls(origin=origin, stride=stride, count=count, dtype=dtype, low=1 << 62, high=0, owners=())

    def with_shard(self, shard: int, first: int, extents: Extents) -> Addresses:
        """The table with a shard entered whose first position is ``first``."""
        begin = extents.address
        low, high = min(self.low, begin), max(self.high, begin + len(extents.buffer))
        origin = self.origin.copy()
        if low != self.low:
            origin[origin != _NOWHERE] += self.low - low
        origin[shard] = begin + int(extents.starts[0]) - first * self.stride - low
        return replace(self, origin=origin, low=low, high=high, owners=(*self.owners, extents.buffer), _views={})

    def has(self, shards: Offsets) -> bool:
        """Whether all of ``shards`` are entered."""
        return not bool((self.origin[shards] == _NOWHERE).any())

    def take(self, shards: Offsets, positions: Offsets, num_items: int) -> NDArray[np.uint8] | None:
        """``num_items`` items from each position on, as bytes; None when a shard is not entered.

        The caller has checked that the items lie inside the shard.
        """
        num_bytes = num_items * self.dtype.itemsize
        # Shards entered may all be smaller than what is asked for, with no item of that size in their memory.
        if not 0 < num_bytes <= min(MAX_ITEM_BYTES, self.high - self.low):
            return None
        view = self._views.get(num_bytes)
        if view is None:
            view = self._views[num_bytes] = memory_items(self.low, self.high, num_bytes)
        try:
            taken: NDArray[np.uint8] = view[self.origin[shards] + positions * self.stride].view(np.uint8)
        except IndexError:
            return None
        return taken
