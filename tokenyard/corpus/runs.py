"""The one way that items are copied out of storage: many runs of bytes, from any buffers, in two numpy calls.

Every run is known by its absolute memory address, so runs from any number of shards are copied by one operation. Runs
of one length are items of a single strided array over the span of all buffers, taken by fancy index; runs of other
lengths are joined as slices of a memory view. Callers keep the buffers alive, and have checked that each run lies
inside one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.rows import Array, Offsets

#: numpy refuses arrays whose shape times item size passes 2^63; a span of addresses is below 2^47.
MAX_ITEM_BYTES = 1 << 15


def copy_runs(addresses: Offsets, num_bytes: int | Offsets) -> NDArray[np.uint8]:
    """The runs of bytes at ``addresses``, each ``num_bytes`` long (one number, or int64[n]), in new memory."""
    if len(addresses) == 0:
        return np.empty(0, np.uint8)
    low = int(addresses.min())
    if isinstance(num_bytes, int):
        if num_bytes == 0:
            return np.empty(0, np.uint8)
        if num_bytes <= MAX_ITEM_BYTES:
            high = int(addresses.max()) + num_bytes
            return memory_items(low, high, num_bytes)[addresses - low].view(np.uint8)
    ends = addresses + num_bytes
    view = _memory(low, int(ends.max()) - low, "|u1", None).data
    slices = [view[a:b] for a, b in zip((addresses - low).tolist(), (ends - low).tolist(), strict=True)]
    # A bytearray, not bytes: the copy is the caller's to write to.
    return np.frombuffer(bytearray().join(slices), np.uint8)


def memory_items(low: int, high: int, num_bytes: int) -> Array:
    """Memory from address ``low`` to ``high`` as items of ``num_bytes``, one beginning at every byte."""
    return _memory(low, high - low - num_bytes + 1, f"|V{num_bytes}", (1,))


def split_at(boundaries: Offsets, low: Offsets, high: Offsets) -> tuple[Offsets, Offsets, Offsets, Offsets]:
    """Cut the ranges low .. high, of one item at least, at ``boundaries``, which increase; equal ones are empty pieces.

    Returns four arrays, one entry a part: the range it comes from, the piece it lies in, and its own low and high.
    Parts of a range follow one another.
    """
    first = np.searchsorted(boundaries, low, side="right") - 1
    last = np.searchsorted(boundaries, high - 1, side="right") - 1
    if (first == last).all():
        return np.arange(len(low)), first, low, high
    counts = last - first + 1
    origin = np.repeat(np.arange(len(low)), counts)
    within = np.arange(len(origin)) - np.repeat(np.cumsum(counts) - counts, counts)
    piece = first[origin] + within
    part_low = np.maximum(low[origin], boundaries[piece])
    part_high = np.minimum(high[origin], boundaries[piece + 1])
    kept = part_low < part_high
    return origin[kept], piece[kept], part_low[kept], part_high[kept]


class Runs:
    """Collects runs in any order, each with the place of its first item in the result, and copies them all."""

    def __init__(self) -> None:
        self._parts: list[tuple[Offsets, Offsets, Offsets, np.dtype[Any]]] = []
        self._alive: list[object] = []

    def add(self, places: Offsets, addresses: Offsets, lengths: Offsets, dtype: np.dtype[Any], owner: object) -> None:
        """Add runs of ``lengths`` items of ``dtype``; ``owner`` keeps the memory alive until the copy is made."""
        self._parts.append((places, addresses, lengths, dtype))
        self._alive.append(owner)

    def copy(self, dtype: np.dtype[Any]) -> tuple[Array, Offsets]:
        """All items in the order of their places, flat and in ``dtype``, and the length of each run."""
        if not self._parts:
            return np.empty(0, dtype), np.empty(0, np.int64)
        stored = {d for *_, d in self._parts}
        if len(stored) > 1:
            return self._copy_mixed(dtype)
        places, addresses, lengths = (np.concatenate(a) for a in zip(*[p[:3] for p in self._parts], strict=True))
        order = np.argsort(places, kind="stable")
        addresses, lengths = addresses[order], lengths[order]
        return _items(addresses, lengths, stored.pop()).astype(dtype, copy=False), lengths

    def _copy_mixed(self, dtype: np.dtype[Any]) -> tuple[Array, Offsets]:
        flat: list[tuple[int, Array]] = []
        for places, addresses, lengths, stored in self._parts:
            items = _items(addresses, lengths, stored).astype(dtype)
            flat += zip(places.tolist(), np.split(items, np.cumsum(lengths)[:-1]), strict=True)
        flat.sort(key=lambda entry: entry[0])
        return np.concatenate([a for _, a in flat]), np.array([len(a) for _, a in flat], np.int64)


def _items(addresses: Offsets, lengths: Offsets, dtype: np.dtype[Any]) -> Array:
    size = dtype.itemsize
    same = len(lengths) > 0 and bool((lengths == lengths[0]).all())
    return copy_runs(addresses, int(lengths[0]) * size if same else lengths * size).view(dtype)


class _Memory:
    """Memory of this process, handed to numpy by address."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _memory(address: int, count: int, typestr: str, strides: tuple[int, ...] | None) -> Array:
    interface = {"version": 3, "shape": (count,), "typestr": typestr, "data": (address, True), "strides": strides}
    return np.asarray(_Memory(interface))
