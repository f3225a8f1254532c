"""Best-fit-decreasing bin packing of many small pieces."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tokenyard.rows import Offsets


def best_fit_decreasing(lengths: Offsets, capacity: int) -> list[list[int]]:
    """Put pieces of ``lengths`` (each 1 .. capacity) into bins: longest first, where the least room is left.

    Returns the pieces of each bin in their given order, bins in the order of their first piece. Ties go to the bin
    opened last, then to the piece given first, so the result depends on the lengths alone.
    """
    bins: list[list[int]] = []
    by_room: defaultdict[int, list[int]] = defaultdict(list)
    rooms = 0  # bit r is set when some bin has room r
    sizes = lengths.tolist()
    for piece in np.argsort(-lengths, kind="stable").tolist():
        size = sizes[piece]
        fitting = rooms >> size
        if fitting:
            room = size + (fitting & -fitting).bit_length() - 1
            same = by_room[room]
            bin = same.pop()
            if not same:
                rooms ^= 1 << room
            bins[bin].append(piece)
        else:
            room, bin = capacity, len(bins)
            bins.append([piece])
        left = room - size
        if left:
            by_room[left].append(bin)
            rooms |= 1 << left
    for pieces in bins:
        pieces.sort()
    bins.sort(key=lambda pieces: pieces[0])
    return bins
