"""A thread-safe cache of extent tables: decoded blocks up to a number of bytes, maps up to a number of files.

Each value is made once even when several threads ask for it together. Values in use stay alive after they are evicted,
since whoever holds one keeps a reference.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tokenyard.stages import stage

Value = TypeVar("Value")


@dataclass
class _Entry(Generic[Value]):
    future: Future[Value] = field(default_factory=Future)
    #: The value, once it is made: asking a future takes a lock of its own.
    made: list[Value] = field(default_factory=list)
    cost: int = 0


class BoundedCache(Generic[Value]):
    """Keeps the values used last, up to ``max_cost`` in all and ``max_items`` of them; always the newest one."""

    def __init__(self, max_cost: int, max_items: int) -> None:
        self._max_cost = max_cost
        self._max_items = max_items
        self._cost = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def cost(self) -> int:
        """What the values kept cost together."""
        return self._cost

    def touch(self, key: Hashable) -> bool:
        """Count a value as used, if it is there. Returns whether it is."""
        with self._lock:
            if key not in self._entries:
                return False
            self._entries.move_to_end(key)
            return True

    def get(self, key: Hashable, make: Callable[[], Value], cost: Callable[[Value], int]) -> Value:
        """The value of ``key``, made by ``make()`` when it is not there. An error in it reaches all who wait."""
        with self._lock:
            if (found := self._entries.get(key)) is not None:
                self._entries.move_to_end(key)
        if found is not None:
            return found.made[0] if found.made else _waited_for(found.future)
        entry = _Entry[Value]()
        try:
            with self._lock:
                found = self._entries.setdefault(key, entry)
            if found is not entry:
                return _waited_for(found.future)
            value = make()
            price = cost(value)
        except BaseException as e:
            with self._lock:
                if self._entries.get(key) is entry:
                    del self._entries[key]
            if not entry.future.done():
                entry.future.set_exception(e)
            raise
        with self._lock:
            # Together, so that an eviction never sees a value whose cost is not counted yet.
            entry.future.set_result(value)
            entry.made.append(value)
            entry.cost = price
            self._cost += price
            self._evict()
        return value

    def _evict(self) -> None:
        """Drop the oldest values while there is too much. Those still being made stay: others wait for them."""
        unfinished = []
        while len(self._entries) > 1 and (self._cost > self._max_cost or len(self._entries) > self._max_items):
            key, entry = self._entries.popitem(last=False)
            if entry.future.done():
                self._cost -= entry.cost
            else:
                unfinished.append((key, entry))
        for key, entry in reversed(unfinished):
            self._entries[key] = entry
            self._entries.move_to_end(key, last=False)


def _waited_for(made_by_another: Future[Value]) -> Value:
    with stage("shared"):
        return made_by_another.result()
