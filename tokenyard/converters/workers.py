"""Who runs the tasks of a job: processes of this machine, or the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from tokenyard.converters.executor import run_tasks
from tokenyard.converters.sight import Sight, destination_sight
from tokenyard.errors import ConfigError, MissingDependencyError
from tokenyard.storage import Folder

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

ExecutorName = Literal["local", "ray"]


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Where tasks run, and how many at a time. What they write is the same.

    Attributes:
        executor: ``"local"``, processes of this machine, or ``"ray"``.
        num_workers: tasks at a time; None means one, and on a Ray cluster as many as it has CPUs.
        address: of the Ray cluster, as ``ray.init`` takes it; None means the one that RAY_ADDRESS names, or that this
            machine belongs to.

    Raises ConfigError.
    """

    executor: ExecutorName = "local"
    num_workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.executor not in get_args(ExecutorName):
            raise ConfigError(f"executor: expected local or ray; found {self.executor!r}")
        if self.num_workers is not None and self.num_workers < 1:
            raise ConfigError(f"num_workers must be 1 or more, not {self.num_workers}")
        if self.address is not None and self.executor != "ray":
            raise ConfigError(
                f"address ({self.address}) is of a Ray cluster, but executor is {self.executor}: set executor to ray "
                "(--executor ray), or leave address out"
            )

    def run(
        self,
        function: Callable[[Shared, Task], Result],
        shared: Shared,
        tasks: Sequence[Task],
        *,
        writes: Folder | None = None,
        reads: Sequence[Sight] = (),
    ) -> Generator[tuple[int, Result]]:
        """Yield ``(number of the task, function(shared, task))`` as tasks end; the first error stops all.

        ``writes`` and ``reads`` are checked to be seen wherever tasks run. ``function`` must be importable by name.
        Raises MissingDependencyError without Ray, StorageError, and whatever tasks raise.
        """
        if self.executor == "local" or not tasks:
            yield from run_tasks(function, shared, tasks, self.num_workers or 1)
            return
        try:
            from tokenyard.converters.on_ray.tasks import run_on_ray
        except ImportError as e:
            raise MissingDependencyError(f"executor ray needs Ray ({e}): pip install 'tokenyard[ray]'") from e
        with ExitStack() as stack:
            sights = [*reads, *([stack.enter_context(destination_sight(writes))] if writes is not None else ())]
            yield from run_on_ray(function, shared, tasks, sights, self.address, self.num_workers)
