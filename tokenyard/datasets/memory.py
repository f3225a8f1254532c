"""Memory for batches that is taken again once nobody holds it.

The C library hands the memory of large arrays back to the system as soon as they are freed, and gets it page by page,
zeroed, when the next batch wants it: at 64 samples of 2,048 tokens that costs more than all else that a batch does.
"""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Smaller arrays stay with the C library, which keeps them.
_SMALLEST = 1 << 17
#: Free bytes kept for one size, and sizes kept; what is in use doesn't count.
_FREE_BYTES = 64 << 20
_NUM_SIZES = 4


class Recycler:
    """Gives out arrays and takes their memory back when the last reference to it is gone: views and tensors count.

    Safe to use from several threads. Nothing takes a lock, since the garbage collector may call back from anywhere.
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[NDArray[np.int64]]] = {}

    def empty(self, shape: tuple[int, int]) -> NDArray[np.int64]:
        """Return an array of any content that nobody else holds."""
        size = shape[0] * shape[1]
        if not _SMALLEST <= 8 * size <= _FREE_BYTES:
            return np.empty(shape, np.int64)
        free = self._free.get(size)
        if free is None:
            if len(self._free) >= _NUM_SIZES:
                self._free = {}  # sizes that come and go are not worth keeping
            free = self._free.setdefault(size, deque(maxlen=_FREE_BYTES // (8 * size)))
        try:
            memory = free.pop()
        except IndexError:
            memory = np.empty(size, np.int64)
        return np.asarray(_Lease(memory, free)).reshape(shape)


class _Lease:
    """What an array given out refers to as the owner of its memory."""

    def __init__(self, memory: NDArray[np.int64], free: deque[NDArray[np.int64]]) -> None:
        self.__array_interface__: dict[str, Any] = memory.__array_interface__
        self._memory = memory
        self._free = free

    def __del__(self) -> None:
        self._free.append(self._memory)


MEMORY = Recycler()
