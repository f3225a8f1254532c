"""What a thread spends its time on while it makes a batch, stage by stage; nothing is measured unless somebody asks.

Stages exclude one another: what is done in a stage inside another one counts as the inner one's alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")

#: read: rows are found and copied, from maps or by ranges. decode: a storage block is decoded. shared: another thread
#: is waited for that decodes the same block. transform: the caller's own. tensors: all else.
Stage = Literal["read", "decode", "shared", "transform", "tensors"]


class StageTime(NamedTuple):
    """What a stage took, in nanoseconds.

    Attributes:
        wall: by the clock.
        cpu: of the processor; what is missing to `wall` was waited.
    """

    wall: int
    cpu: int


class BatchTimes(NamedTuple):
    """Where the time went that one batch took to make.

    Attributes:
        process: the id of the process that made it.
        thread: its thread, by the system's number.
        stages: what each stage took that there was.
    """

    process: int
    thread: int
    stages: dict[Stage, StageTime]


class stage:  # noqa: N801  # used as `with stage("read"):`, and a class since it is cheaper than a generator
    """While it lasts, this thread's time is that of a stage."""

    __slots__ = ("_before", "_name")

    def __init__(self, name: Stage) -> None:
        self._name: Stage = name

    def __enter__(self) -> None:
        clock = _thread.clock
        if clock is not None:
            self._before = clock.change(self._name)

    def __exit__(self, *error: object) -> None:
        clock = _thread.clock
        if clock is not None:
            clock.change(self._before)


def measured(work: Callable[[], T]) -> tuple[T, BatchTimes]:
    """Return what `work` returns, and what its stages took in this thread."""
    clock = _thread.clock = _Clock()
    try:
        result = work()
    finally:
        _thread.clock = None
    return result, BatchTimes(os.getpid(), threading.get_native_id(), clock.stopped())


class _Clock:
    def __init__(self) -> None:
        self._taken: dict[Stage, StageTime] = {}
        self._stage: Stage = "tensors"
        self._wall, self._cpu = time.perf_counter_ns(), time.thread_time_ns()

    def change(self, to: Stage) -> Stage:
        """Go over to another stage. Returns the one before."""
        before, wall, cpu = self._stage, time.perf_counter_ns(), time.thread_time_ns()
        taken = self._taken.get(before, _NOTHING)
        self._taken[before] = StageTime(taken.wall + wall - self._wall, taken.cpu + cpu - self._cpu)
        self._stage, self._wall, self._cpu = to, wall, cpu
        return before

    def stopped(self) -> dict[Stage, StageTime]:
        self.change(self._stage)
        return self._taken


_NOTHING = StageTime(0, 0)


class _Thread(threading.local):
    clock: _Clock | None = None


_thread = _Thread()
