"""A memory of arrays that cost much to compute and are soon needed again: bounded in bytes, shared by threads."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

# A function and its arguments, all hashable: both the name of an array and the way to compute it.
Call = tuple[Any, ...]


class TableCache:
    """What `functools.lru_cache` is for values, for arrays: it counts bytes, and the least recently used leave first.

    Everybody who asks gets the same array, so arrays are made read-only. An array larger than `max_bytes` is returned
    and not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        """Begin empty."""
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.lock = threading.Lock()
        self._arrays: OrderedDict[Call, NDArray[Any]] = OrderedDict()

    def get(self, build: Callable[..., NDArray[Any]], *args: Any) -> NDArray[Any]:
        """Return `build(*args)`, kept from before or computed now. `build` must be pure."""
        return self.get_many([(build, *args)])[0]

    def get_many(self, calls: Sequence[Call]) -> list[NDArray[Any]]:
        """Return the result of each call, in their order."""
        arrays = self._arrays
        with self.lock:
            found = [arrays.get(call) for call in calls]
            for call, array in zip(calls, found, strict=True):
                if array is not None:
                    arrays.move_to_end(call)
        return [self._computed(call) if array is None else array for call, array in zip(calls, found, strict=True)]

    def make_room(self, num_bytes: int) -> None:
        """Let the cache hold at least `num_bytes` from now on."""
        with self.lock:
            self.max_bytes = max(self.max_bytes, num_bytes)

    def _computed(self, call: Call) -> NDArray[Any]:
        # Outside the lock: two threads may compute the same array, but none waits for another's.
        build, *args = call
        array: NDArray[Any] = build(*args)
        array.flags.writeable = False
        with self.lock:
            if call in self._arrays or array.nbytes > self.max_bytes:
                return array
            self._arrays[call] = array
            self.num_bytes += array.nbytes
            while self.num_bytes > self.max_bytes:
                _, oldest = self._arrays.popitem(last=False)
                self.num_bytes -= oldest.nbytes
        return array


TABLES = TableCache(max_bytes=64 << 20)

if hasattr(os, "register_at_fork"):
    # A worker forked while a thread holds the lock would wait for it for ever.
    os.register_at_fork(
        before=TABLES.lock.acquire, after_in_parent=TABLES.lock.release, after_in_child=TABLES.lock.release
    )
