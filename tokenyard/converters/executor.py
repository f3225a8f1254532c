"""Runs the tasks of a job in local processes; results come back in the order of the tasks.

A task is a small picklable value; what all tasks share (the opened source, the destination) is sent to each worker
once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from tokenyard.errors import ConfigError, StorageError

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

_state: tuple[Callable[[Any, Any], Any], Any] | None = None


def run_tasks(
    function: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task], num_workers: int
) -> Generator[tuple[int, Result]]:
    """Yield ``(number of the task, function(shared, task))`` as tasks end, with ``num_workers`` processes.

    One worker means this process. The first error stops the job: what has not begun is dropped, what runs is waited
    for. ``function`` must be importable by name.
    """
    if num_workers < 1:
        raise ConfigError(f"num_workers must be 1 or more, not {num_workers}")
    if num_workers == 1 or len(tasks) <= 1:
        for number, task in enumerate(tasks):
            yield number, function(shared, task)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(num_workers, len(tasks)), context, _initialize, (function, shared))
    try:
        yield from _collect(pool, tasks)
    except BrokenProcessPool:
        raise StorageError(
            "a worker process died without an error of its own. Either the system killed it for want of memory: run "
            "again with fewer workers or smaller shards. Or the script that called this does its work at import, "
            "which each "
            "worker repeats: put it under if __name__ == '__main__'"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _collect(pool: ProcessPoolExecutor, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    with _interrupts_held():  # which processes begin as they are here
        numbers: dict[Future[Any], int] = {pool.submit(_run, task): i for i, task in enumerate(tasks)}
    for future in as_completed(list(numbers)):
        yield numbers.pop(future), future.result()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C goes to all processes of a terminal. This one alone answers it, and ends the others."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _initialize(function: Callable[[Any, Any], Any], shared: Any) -> None:
    global _state
    _state = (function, shared)
    threading.Thread(target=_end_with_parent, daemon=True, name="tokenyard-parent").start()


def _end_with_parent() -> None:
    """End this worker when the process that made it is gone: killed, it can't tell its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(task: Any) -> Any:
    if _state is None:
        raise RuntimeError("the worker was not initialized")
    function, shared = _state
    return function(shared, task)
