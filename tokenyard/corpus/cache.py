"""A thread-safe cache of extent tables: decoded blocks up to a number of bytes, maps up to a number of files.

Each value is made once even when several threads ask for it together. Values in use stay alive after they are evicted,
since whoever holds one keeps a reference.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Keeps the values used last, up to ``max_cost`` in all and ``max_items`` of them."""

    def __init__(self, max_cost: int, max_items: int) -> None:
        self._max_cost = max_cost
        self._max_items = max_items
        self._cost = 0
        self._lock = threading.Lock()
        self._items: OrderedDict[Hashable, tuple[Future[Value], int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value], cost: Callable[[Value], int]) -> Value:
        """The value of ``key``, made by ``make()`` when it is not there."""
        with self._lock:
            entry = self._items.get(key)
            if entry is not None:
                self._items.move_to_end(key)
            else:
                future: Future[Value] = Future()
                self._items[key] = (future, 0)
        if entry is not None:
            return entry[0].result()
        try:
            value = make()
        except BaseException as e:
            with self._lock:
                self._items.pop(key, None)
            future.set_exception(e)
            raise
        future.set_result(value)
        with self._lock:
            if key in self._items:
                price = cost(value)
                self._items[key] = (future, price)
                self._cost += price
                self._evict()
        return value

    def _evict(self) -> None:
        for key in list(self._items):
            if self._cost <= self._max_cost and len(self._items) <= self._max_items:
                return
            future, price = self._items[key]
            if future.done() and len(self._items) > 1:
                del self._items[key]
                self._cost -= price
