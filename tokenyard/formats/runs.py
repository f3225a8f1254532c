"""Runs of bytes at given positions of one buffer: taken out, or put in.

Runs of one length are items of a single void array of stride one over the buffer, so any number of them is one numpy
call at any alignment; runs of other lengths are slices of a memory view. Callers have checked that all lie inside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenyard.rows import Array, Offsets

Bytes = NDArray[np.uint8]
#: Longer runs are as fast by slices.
_MAX_ITEM_BYTES = 1 << 15


def take(buffer: Bytes, starts: Offsets, sizes: Offsets) -> Bytes:
    """The runs of ``sizes[i]`` bytes from ``starts[i]`` on, one after another."""
    if not len(starts):
        return np.empty(0, np.uint8)
    size = int(sizes[0])
    if bool((sizes == size).all()):
        if size == 0:
            return np.empty(0, np.uint8)
        if size <= _MAX_ITEM_BYTES:
            return take_equal(buffer, starts, size).reshape(-1)
    view = buffer.data
    slices = [view[a:b] for a, b in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]
    return np.frombuffer(b"".join(slices), np.uint8)


def take_equal(buffer: Bytes, starts: Offsets, size: int) -> Bytes:
    """uint8[n, size]: the runs of ``size`` bytes (at least one) from each of ``starts`` on."""
    if not len(starts):
        return np.empty((0, size), np.uint8)
    return _items(buffer, size)[starts].view(np.uint8).reshape(len(starts), size)


def put(buffer: Bytes, starts: Offsets, sizes: Offsets, values: Array) -> None:
    """Write ``values``, whose bytes are the runs one after another, to where each begins in ``buffer``."""
    if not len(starts):
        return
    flat = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    size = int(sizes[0])
    if bool((sizes == size).all()) and size <= _MAX_ITEM_BYTES:
        if size:
            put_equal(buffer, starts, flat.reshape(len(starts), size))
        return
    target, source = buffer.data, flat.data
    ends = np.cumsum(sizes)
    runs = zip(starts.tolist(), sizes.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
    for start, length, a, b in runs:
        target[start : start + length] = source[a:b]


def put_equal(buffer: Bytes, starts: Offsets, values: Array) -> None:
    """Write each line of ``values`` (two-dimensional, any dtype) to where it begins in ``buffer``."""
    if not len(starts):
        return
    lines = np.ascontiguousarray(values).view(np.uint8)
    size = lines.shape[1]
    _items(buffer, size)[starts] = lines.view(f"|V{size}").reshape(-1)


def _items(buffer: Bytes, size: int) -> Array:
    return np.ndarray((len(buffer) - size + 1,), f"|V{size}", buffer, 0, (1,))
