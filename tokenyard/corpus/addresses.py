"""Where the rows of raw shards lie in memory, as arrays over shards, so that a batch is found without a loop over them.

A shard is *flat* when its tokens lie one after another (npy), and *regular* when its rows have one length and one distance
(packed rows in mds and tars). Each entry holds for as long as the table itself is referenced: it keeps the maps alive.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tokenyard.formats.extents import Extents


class AddressTable:
    """For each shard: ``flat`` the address of token 0 and ``base``, ``stride``, ``items`` of its rows; 0 where not so.

    ``known`` says which shards have been added. All raw shards of a table have one dtype.
    """

    def __init__(self, num_shards: int, max_shards: int) -> None:
        self.known = np.zeros(num_shards, bool)
        self.flat = np.zeros(num_shards, np.int64)
        self.base = np.zeros(num_shards, np.int64)
        self.stride = np.zeros(num_shards, np.int64)
        self.items = np.zeros(num_shards, np.int64)
        self.dtype: np.dtype[Any] | None = None
        self._max_shards = max_shards
        self._owners: dict[int, Extents] = {}
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Whether a new table should take its place before more shards are added."""
        return len(self._owners) >= self._max_shards

    def add(self, shard: int, extents: Extents) -> None:
        """Enter a shard that is one raw block."""
        with self._lock:
            if self.known[shard] or not len(extents.starts):
                return
            if self.dtype is None:
                self.dtype = extents.dtype
            if extents.dtype == self.dtype:
                self._owners[shard] = extents
                starts, lengths = extents.starts, extents.lengths
                if extents.is_flat:
                    self.flat[shard] = extents.address + int(starts[0])
                stride = int(starts[1] - starts[0]) if len(starts) > 1 else 0
                if (lengths == lengths[0]).all() and (np.diff(starts) == stride).all():
                    self.base[shard] = extents.address + int(starts[0])
                    self.stride[shard] = stride
                    self.items[shard] = lengths[0]
            self.known[shard] = True
