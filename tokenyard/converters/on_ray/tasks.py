"""Runs the tasks of a job in the workers of a Ray cluster; results come back as tasks end.

A task whose node or process is gone is given to another one, a few times: two writers of a task write the same bytes.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from tokenyard.converters.on_ray.cluster import as_actor, as_remote, check_nodes, connected, has_cpus, num_cpus
from tokenyard.converters.on_ray.worker import Ended, Sent, name_of_end, run_task
from tokenyard.converters.sight import Sight
from tokenyard.converters.versions import ENCODERS, installed
from tokenyard.errors import StorageError, TokenyardError

_LOST = (LocalRayletDiedError, NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError)
_ATTEMPTS = 4
#: Tasks handed to the cluster for each that can run, so that no worker waits for the next one.
_AHEAD = 2
#: How often the cluster is asked anew how large it is.
_WAIT_SECONDS = 10.0
#: How long the cluster may be without any CPU, while nodes come and go.
_SECONDS_WITHOUT_CPU = 120.0
#: How long tasks may take to end that are told to.
_END_SECONDS = 30.0
#: An actor is gone with the last that knows it.
_kept: list[Any] = []


def run_on_ray(
    function: Callable[[Any, Any], Any],
    shared: Any,
    tasks: Sequence[Any],
    sights: Sequence[Sight],
    address: str | None,
    num_workers: int | None,
) -> Generator[tuple[int, Any]]:
    """Yield ``(number of the task, function(shared, task))`` as tasks end, ``num_workers`` or all CPUs at a time.

    All nodes are held to the versions here and to ``sights`` first. After an error, and where this is closed, what
    runs is ended. Raises ConfigError, MissingDependencyError, StorageError, and what tasks raise.
    """
    with connected(address):
        id, expected = uuid.uuid4().hex, installed(ENCODERS)
        sent = [ray.put(Sent.of(id, expected, function, shared, sights))]
        check_nodes(id, sent, expected)
        remote = as_remote(run_task, num_cpus=1)
        yield from _results(id, lambda task: remote.remote(id, sent, task), tasks, num_workers)


def _results(
    id: str, submit: Callable[[Any], Any], tasks: Sequence[Any], num_workers: int | None
) -> Generator[tuple[int, Any]]:
    running: dict[Any, int] = {}
    # Ray itself would run a task that takes more memory than there is again and again, without end.
    lost: Counter[int] = Counter()
    numbers = iter(range(len(tasks)))
    last_seen = time.monotonic()
    try:
        while True:
            last_seen = time.monotonic() if has_cpus() else last_seen
            if running and time.monotonic() - last_seen > _SECONDS_WITHOUT_CPU:
                raise StorageError(
                    "the Ray cluster has no node left with a CPU to run tasks on; add one, and run the job again: it "
                    "goes on with what is not done"
                )
            limit = num_workers or _AHEAD * num_cpus()
            for number in islice(numbers, max(0, limit - len(running))):
                running[submit(tasks[number])] = number
            if not running:
                return
            for ref in ray.wait(list(running), num_returns=1, timeout=_WAIT_SECONDS)[0]:
                number = running.pop(ref)
                try:
                    outcome = ray.get(ref)
                except _LOST as e:
                    lost[number] += 1
                    if lost[number] == _ATTEMPTS:
                        raise _given_up(number, e) from None
                    running[submit(tasks[number])] = number
                    continue
                if isinstance(outcome, TokenyardError):
                    raise outcome
                yield number, outcome
    finally:
        _end(id, running)


def _end(id: str, running: Collection[Any]) -> None:
    """End what runs, so that nobody writes any more where this job has ended."""
    if not (running and ray.is_initialized()):  # Ray would begin a cluster here to be asked
        return
    with suppress(RayError):  # of a cluster that is gone
        if not ray.wait(list(running), num_returns=len(running), timeout=0)[1]:
            return
        ended = as_actor(Ended, name=name_of_end(id), num_cpus=0)
        if ray.wait(list(running), num_returns=len(running), timeout=_END_SECONDS)[1]:
            _kept.append(ended)  # for what is begun later still


def _given_up(number: int, error: Exception) -> StorageError:
    return StorageError(
        f"task {number + 1} ended {_ATTEMPTS} times without an error of its own ({str(error).splitlines()[0]}). If the "
        "system killed it for want of memory, run again with fewer tasks at a time (num_workers, --workers) or smaller "
        "shards"
    )
