"""Runs of bytes in one buffer, taken out or put together many at once, at any alignment and without Python a run.

Runs of one length are items of a void array of stride one over the buffer, or columns of a table. Runs of other lengths
are values of Arrow binary arrays, which copies them in C++ at some tens of nanoseconds each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.rows import Array, Offsets, offsets_of

Bytes = NDArray[np.uint8]
#: Longer runs are as fast one by one.
_MAX_ITEM_BYTES = 1 << 15
#: Below this, slices cost less than calling Arrow.
_FEW = 64


def take(buffer: Bytes, starts: Offsets, sizes: Offsets) -> Bytes:
    """The runs of ``sizes[i]`` bytes from ``starts[i]`` on, one after another; the caller knows that all lie inside."""
    if len(sizes) and bool((sizes == sizes[0]).all()) and int(sizes[0]) <= _MAX_ITEM_BYTES:
        return take_equal(buffer, starts, int(sizes[0])).reshape(-1)
    some = sizes > 0
    if not some.all():
        starts, sizes = starts[some], sizes[some]
    ends = starts + sizes
    if len(starts) > _FEW and bool((starts[1:] >= ends[:-1]).all()):
        # Every other value is a run, those between are the gaps.
        bounds = np.stack([starts, ends], axis=1).reshape(-1)
        return _take_values(buffer, bounds, np.arange(0, len(bounds), 2), int(sizes.sum()))
    view = buffer.data
    return np.frombuffer(b"".join([view[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]), np.uint8)


def take_equal(buffer: Bytes, starts: Offsets, size: int) -> Bytes:
    """uint8[n, size]: the runs of ``size`` bytes from each of ``starts`` on."""
    if not len(starts) or not size:
        return np.empty((len(starts), size), np.uint8)
    items: Array = np.ndarray((len(buffer) - size + 1,), f"|V{size}", buffer, 0, (1,))
    return items[starts].view(np.uint8).reshape(len(starts), size)


def interleave(parts: Sequence[tuple[Array, Offsets]]) -> Bytes:
    """Row by row the first part's bytes, then the second's, and so on.

    A part is its bytes flat (any dtype) and int64[rows], how many of them belong to each row.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    flats = [np.ascontiguousarray(values).reshape(-1).view(np.uint8) for values, _ in parts]
    num_rows = len(parts[0][1])
    if not num_rows:
        return np.empty(0, np.uint8)
    widths = [int(sizes[0]) for _, sizes in parts]
    if all(bool((sizes == width).all()) for (_, sizes), width in zip(parts, widths, strict=True)):
        table = np.empty((num_rows, sum(widths)), np.uint8)
        column = 0
        for flat, width in zip(flats, widths, strict=True):
            table[:, column : column + width] = flat.reshape(num_rows, width)
            column += width
        return table.reshape(-1)
    bounds = [offsets_of(sizes) for _, sizes in parts]
    texts = [_binary_array(flat, begins) for flat, begins in zip(flats, bounds, strict=True)]
    joined = pc.binary_join_element_wise(*texts, pa.scalar(b"", pa.large_binary()))
    return _bytes_of(joined, sum(int(begins[-1]) for begins in bounds))


def _take_values(buffer: Bytes, bounds: Offsets, order: Offsets, size: int) -> Bytes:
    """The values of a binary array with these ``bounds``, in this order; ``size`` bytes in all."""
    import pyarrow as pa

    return _bytes_of(_binary_array(buffer, bounds).take(pa.array(order)), size)


def _binary_array(buffer: Bytes, bounds: Offsets) -> Any:
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(buffer)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def _bytes_of(array: Any, size: int) -> Bytes:
    """The bytes of all values of a new binary array."""
    return np.frombuffer(array.buffers()[2], np.uint8, size) if size else np.empty(0, np.uint8)
