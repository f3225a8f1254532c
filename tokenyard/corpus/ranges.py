"""Ranges of a stream, cut where its pieces end. Pure functions on arrays."""

from __future__ import annotations

import numpy as np

from tokenyard.rows import Offsets


def split_at(boundaries: Offsets, low: Offsets, high: Offsets) -> tuple[Offsets, Offsets, Offsets, Offsets]:
    """Cut the ranges low .. high, of one item at least, at ``boundaries``, which increase; equal ones are empty pieces.

    Returns four arrays, one entry a part: the range it comes from, the piece it lies in, and its own low and high.
    Parts of a range follow one another.
    """
    first = np.searchsorted(boundaries, low, side="right") - 1
    last = np.searchsorted(boundaries, high - 1, side="right") - 1
    if (first == last).all():
        return np.arange(len(low)), first, low, high
    origin, piece = numbered(first, last - first + 1)
    part_low = np.maximum(low[origin], boundaries[piece])
    part_high = np.minimum(high[origin], boundaries[piece + 1])
    kept = part_low < part_high
    return origin[kept], piece[kept], part_low[kept], part_high[kept]


def numbered(first: Offsets, counts: Offsets) -> tuple[Offsets, Offsets]:
    """Return first[i], first[i] + 1, ... ``counts[i]`` times, after the i of each."""
    which = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return which, first[which] + within
