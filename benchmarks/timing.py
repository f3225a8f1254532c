"""Rates measured in turn, since a machine's speed changes while it is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

#: Takes batches for so many seconds, and returns samples a second.
Contender = Callable[[float], float]

#: What glibc takes from the system and gives back at once at most, less what a block needs besides.
_LARGEST_KEPT_BYTES = 31 << 20


def warm_allocator() -> None:
    """Bring the C library's allocator into the state that long-running processes reach by themselves.

    glibc takes blocks of 128 KiB and more from the system, page by page zeroed, and gives them back when they are
    freed, until the first large one (of 32 MiB at most) was freed: from then on, blocks up to its size are kept and
    used again. A batch of 64 rows in int64 is such a block, and numpy's own rate differs by two or three between both
    states. Training processes free larger blocks when they start.
    """
    block = np.empty(_LARGEST_KEPT_BYTES, np.uint8)
    block[:: 1 << 12] = 1
    del block


def contest(contenders: Mapping[str, Contender], rounds: int, seconds: float) -> dict[str, float]:
    """Median samples a second of each, all in turn in each round."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, take in contenders.items():
            rates[name].append(take(seconds))
    return {name: float(np.median(found)) for name, found in rates.items()}


def forever(loader: Iterable[T]) -> Iterator[T]:
    """Epoch after epoch. Raises ValueError when an epoch is empty."""
    while True:
        batch = None
        for batch in loader:
            yield batch
        if batch is None:
            raise ValueError(f"{loader!r} gives no batches")


def contender(batches: Iterator[Any], batch_size: int, check: Callable[[Any], None], settle: int = 16) -> Contender:
    """Takes batches that are all of one size, and checks the last one; what was read ahead is taken before."""

    def take(seconds: float) -> float:
        for _ in islice(batches, settle):
            pass
        count, started = 0, time.perf_counter()
        while (spent := time.perf_counter() - started) < seconds:
            batch = next(batches)
            count += 1
        check(batch)
        return count * batch_size / spent

    return take
