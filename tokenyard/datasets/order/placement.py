"""Which sample stands at a position: the arithmetic of `global` and `block` shuffles (`order/1`), without memory."""

from itertools import pairwise

import numpy as np

from tokenyard.datasets.order.pages import Int64Array, Pages, cut
from tokenyard.permutation.keyed import key, perm, perm_inverse, perm_inverses, sorted_table

# The purposes of keys, counted from the first of a source: `t` in the specification.
_BLOCKS, _WINDOWS, _GLOBAL = 0, 1, 2

# Order blocks that are computed together, where there are too many for a table: each lane computes a page to start.
_BLOCKS_PAGE = 1 << 8


class KeyedPermutation:
    """The permutation of 0..size-1 with a key, in one unit."""

    def __init__(self, size: int, k: int) -> None:
        """Take the size, below 2**62, and the key."""
        self.size = self.unit = size
        self._key = k

    def at(self, positions: Int64Array) -> Int64Array:
        """Return where each position is sent."""
        return perm(self.size, self._key, positions)

    def whole_unit(self, number: int) -> Int64Array:
        """Return where all positions are sent."""
        return sorted_table(self.size, self._key)

    def positions(self, samples: Int64Array) -> Int64Array:
        """Return the position that is sent to each of `samples`."""
        return perm_inverses(self.size, self._key, samples)


def global_placement(num_samples: int, seed: int, epoch: int, purpose: int) -> KeyedPermutation:
    """Return the placement of `global`: one permutation of all samples."""
    return KeyedPermutation(num_samples, key(seed, epoch, purpose + _GLOBAL, 0))


class BlockPlacement:
    """The placement of `block`: order blocks are permuted, then the samples inside each window. A unit is a window."""

    def __init__(
        self, *, num_samples: int, seed: int, epoch: int, block_samples: int, window_blocks: int, purpose: int
    ) -> None:
        """Take the parameters of the order, in their ranges, with `num_samples` above 0."""
        num_blocks = -(-num_samples // block_samples)
        blocks_key = key(seed, epoch, purpose + _BLOCKS, 0)
        short_place = perm_inverse(num_blocks, blocks_key, num_blocks - 1)
        self.size = num_samples
        self.unit = min(window_blocks * block_samples, num_samples)
        self._seed = seed
        self._epoch = epoch
        self._purpose = purpose
        self._blocks_key = blocks_key
        self._block_samples = block_samples
        self._num_blocks = num_blocks
        self._blocks = Pages(KeyedPermutation(num_blocks, blocks_key), at_once=2, page_size=_BLOCKS_PAGE)
        self._shortfall = num_blocks * block_samples - num_samples
        self._short_end = (short_place + 1) * block_samples - self._shortfall

    def at(self, positions: Int64Array) -> Int64Array:
        """Return the sample at each of some ascending positions."""
        windows, bounds, offsets = cut(positions, self.unit)
        out = np.empty_like(positions)
        for window, (a, b) in zip(windows, pairwise(bounds), strict=True):
            length, k = self._window(window)
            out[a:b] = self._sample(window, perm(length, k, offsets[a:b]))
        return out

    def whole_unit(self, number: int) -> Int64Array:
        """Return the samples of a window."""
        return self._sample(number, sorted_table(*self._window(number)))

    def positions(self, samples: Int64Array) -> Int64Array:
        """Return the position at which each of `samples` stands, int64[n] both, in any order, n > 0."""
        blocks, within = np.divmod(samples, self._block_samples)
        near, which = np.unique(blocks, return_inverse=True)
        q = perm_inverses(self._num_blocks, self._blocks_key, near)[which] * self._block_samples + within
        q[q >= self._short_end + self._shortfall] -= self._shortfall
        ascending = np.argsort(q)
        windows, bounds, offsets = cut(q[ascending], self.unit)
        for window, (a, b) in zip(windows, pairwise(bounds), strict=True):
            q[ascending[a:b]] = window * self.unit + perm_inverses(*self._window(window), offsets[a:b])
        return q

    def _window(self, number: int) -> tuple[int, int]:
        """Return the length and the key of a window."""
        return min(self.unit, self.size - number * self.unit), key(
            self._seed, self._epoch, self._purpose + _WINDOWS, number
        )

    def _sample(self, window: int, q: Int64Array) -> Int64Array:
        """Return the samples at places `q` of a window, writing over `q`."""
        start = window * self.unit
        q += start
        # The short order block may stand anywhere. What comes after it moves up, as if it were whole.
        if self._short_end < start + self.unit:
            q[q >= self._short_end] += self._shortfall
        blocks = q // self._block_samples
        first = start // self._block_samples
        # A window moved up touches one more order block.
        num_near = min(-(-self.unit // self._block_samples) + 1, self._num_blocks - first)
        if num_near <= q.size:
            near = np.arange(first, first + num_near)
            moves = self._blocks.samples(near) - near
            blocks -= first
            moved = moves[blocks]
        else:
            moved = self._blocks.samples(blocks) - blocks
        moved *= self._block_samples
        q += moved
        return q
