"""How fast steps follow one another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

#: How many times the time given a first pass may take until it is stopped.
_MOST_TIMES = 10


def rate(begin_pass: Callable[[], Iterable[int]], seconds: float, *, once: bool = False) -> float:
    """What the steps of a pass give in a second, summed over passes until ``seconds`` are over.

    The first pass goes on to its end, for ten times as long at most: where a step decodes what many later ones take, a
    part of a pass would say little.

    Args:
        begin_pass: makes ready, which isn't timed, and returns the steps; each is the amount that it gave.
        seconds: when to stop after the first pass, in the middle of one too.
        once: whether to stop after the first pass, however short.
    """
    amount, spent, limit = 0, 0.0, seconds * _MOST_TIMES
    while True:
        steps = iter(begin_pass())
        given = 0
        begun = now = time.perf_counter()
        for step in steps:
            given += step
            now = time.perf_counter()
            if spent + now - begun >= limit:
                break
        amount += given
        spent += now - begun
        if once or not given or spent >= seconds:
            return amount / spent if spent else 0.0
        limit = seconds


def latencies(calls: Iterable[Callable[[], object]], seconds: float) -> list[float]:
    """Seconds that each call takes, until ``seconds`` are over; one at least."""
    found: list[float] = []
    begun = time.perf_counter()
    for call in calls:
        before = time.perf_counter()
        call()
        after = time.perf_counter()
        found.append(after - before)
        if after - begun >= seconds:
            break
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that ``share`` of them don't exceed."""
    return float(np.quantile(np.asarray(values), share, method="inverted_cdf"))
