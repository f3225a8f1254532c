"""Asks the system for the pages of mapped shards before they are read, so that no thread waits for a page alone."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus.shards import OpenShards
from tokenyard.formats.extents import Extents
from tokenyard.rows import Offsets
from tokenyard.storage.advice import share_in_memory, will_need

#: What is asked for at once: enough for a disk to read at its full rate, little enough not to read what nobody needs.
UNIT_BYTES = 1 << 20
#: Units that were asked for and are not asked for again.
_MAX_KNOWN = 1 << 16
#: When so many units were all in memory, or as many as the corpus has MiB, others are taken to be there too.
_ENOUGH = 256


class ReadAhead:
    """Of one corpus in one process, and of one thread."""

    def __init__(self, shards: OpenShards) -> None:
        self._shards = shards
        self._known: OrderedDict[tuple[int, int], None] = OrderedDict()
        #: Units looked at, or shards that aren't mapped, and those of them that needed no asking.
        self.num_looked_at = 0
        self.num_in_memory = 0
        self._residency_is_told = shards.residency_is_told
        num_bytes = int(shards.token_starts[-1]) * shards.dtype("tokens").itemsize
        self._enough = max(1, min(_ENOUGH, num_bytes // UNIT_BYTES))

    @property
    def is_needless(self) -> bool:
        """Whether all is in memory, or no shard is mapped, as far as one can tell."""
        return self.num_looked_at >= self._enough and self.num_in_memory == self.num_looked_at

    def tokens(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        """Ask for ranges of the token stream, int64[n] both, none empty. Raises DataError, StorageError."""
        if self.is_needless:
            return
        begins = self._shards.token_starts
        first = np.searchsorted(begins, starts, side="right") - 1
        last = np.searchsorted(begins, stops - 1, side="right") - 1
        for shard in np.unique([first, last]).tolist():
            here = (first <= shard) & (last >= shard)
            low = np.maximum(starts[here], begins[shard]) - begins[shard]
            high = np.minimum(stops[here], begins[shard + 1]) - begins[shard]
            if (low < high).all():
                self._tokens_of(shard, low, high)

    def _tokens_of(self, shard: int, low: NDArray[np.int64], high: NDArray[np.int64]) -> None:
        """Ask for ranges of one shard's tokens."""
        reader = self._shards.reader(shard)
        if not reader.mapped:  # there is nothing to ask for, as where all is in memory
            self.num_looked_at += 1
            self.num_in_memory += 1
            return
        extents = self._shards.extents(shard, 0, "tokens")
        begins = _bytes_at(extents, reader.index.offsets, low)
        ends = _bytes_at(extents, reader.index.offsets, high - 1)
        pairs = zip((begins // UNIT_BYTES).tolist(), (ends // UNIT_BYTES).tolist(), strict=True)
        for unit in sorted({unit for first, last in pairs for unit in range(first, last + 1)}):
            if (shard, unit) in self._known:
                continue
            self._known[shard, unit] = None
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
            start = unit * UNIT_BYTES
            size = min(UNIT_BYTES, len(extents.buffer) - start)
            self.num_looked_at += 1
            if self._residency_is_told and share_in_memory(extents.address + start, size) == 1.0:
                self.num_in_memory += 1
            else:
                will_need(extents.address + start, size)


def _bytes_at(extents: Extents, offsets: Offsets, tokens: Offsets) -> Offsets:
    """The byte of the buffer at which each of some tokens of a block lies."""
    rows = np.searchsorted(offsets, tokens, side="right") - 1
    return extents.starts[rows] + (tokens - offsets[rows]) * extents.dtype.itemsize
