"""The ranks of a node at once: in a process each, as in the job; one rank alone in this process."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Self

from tokenyard.datasets.transforms import Transform
from tokenyard.doctor.rank_process import READY, run_ranks
from tokenyard.doctor.trial import Trial, TrialJob, try_out
from tokenyard.errors import BenchmarkError, ConfigError

#: Fewer processes than these run whatever the cores are: most nodes have no more GPUs.
_LEAST_PROCESSES = 8
#: Seconds that processes may take to begin, to open the corpus, and beyond what a trial is told to take.
_GRACE_S = 120.0
_SECONDS_TO_END = 5.0


def most_processes(cores: int) -> int:
    """Return how many ranks run at once at most: more would measure how processes take turns."""
    return max(_LEAST_PROCESSES, 2 * cores)


class Ranks:
    """The first ranks of a job's first node. To be closed.

    Args:
        transform: what the job hands to `build_dataloader`; one that pickles, where there are several ranks.
        gpus: ranks on the node.
        world_size: of the job.
        count: how many of them run.

    Raises ConfigError for a transform that doesn't pickle.
    """

    def __init__(self, transform: Transform | None, *, gpus: int, world_size: int, count: int) -> None:
        self._transform = transform
        self._process: SpawnProcess | None = None
        self._pipes: list[Connection[Any, Any]] = []
        if count == 1:
            return
        _check_sendable(transform)
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(count)]
        self._pipes = [ours for ours, _ in pipes]
        theirs = [their for _, their in pipes]
        self._process = context.Process(target=run_ranks, args=(theirs, transform, gpus, world_size))
        self._process.start()
        for pipe in theirs:
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def try_out(self, job: TrialJob) -> list[Trial]:
        """Let all ranks begin at the same moment. Returns what each saw.

        Raises what a rank ended with; BenchmarkError where one doesn't answer in time, or its process ended. Then, and
        after an interrupt, no rank goes on.
        """
        if self._process is None:
            return [try_out(job, self._transform, 0)]
        try:
            self._send(job)
            self._answers(_GRACE_S)
            self._send(READY)
            return [trial for trial in self._answers(job.at_most + _GRACE_S) if isinstance(trial, Trial)]
        except BaseException:
            self._end(self._process)
            raise

    def close(self) -> None:
        """End the processes: they end with their pipes, and in the middle of a trial with the one that began them."""
        for pipe in self._pipes:
            pipe.close()
        if self._process is not None:
            self._process.join(_SECONDS_TO_END)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()

    def _end(self, process: SpawnProcess) -> None:
        """End all ranks in the middle of what they do, so that nobody uses what the caller takes away."""
        process.kill()  # the others end with it
        process.join()
        until = time.monotonic() + _SECONDS_TO_END
        for pipe in self._pipes:
            with suppress(EOFError, OSError):
                while pipe.poll(max(0.0, until - time.monotonic())):
                    pipe.recv()

    def _send(self, what: object) -> None:
        for rank, pipe in enumerate(self._pipes):
            try:
                pipe.send(what)
            except OSError:
                raise _lost(rank) from None

    def _answers(self, seconds: float) -> list[object]:
        """What each rank says next. Raises what it says where that is an error."""
        until = time.monotonic() + seconds
        answers: dict[int, object] = {}
        while len(answers) < len(self._pipes):
            asked = {rank: pipe for rank, pipe in enumerate(self._pipes) if rank not in answers}
            ready: Sequence[object] = wait(list(asked.values()), max(0.0, until - time.monotonic()))
            if not ready:
                raise BenchmarkError(
                    f"rank {min(asked)}: expected an answer of its process in {seconds:.0f} s, found none; give fewer "
                    "--gpus, or look at the storage first"
                )
            for rank, pipe in asked.items():
                if pipe not in ready:
                    continue
                try:
                    answers[rank] = answer = pipe.recv()
                except (EOFError, OSError):
                    raise _lost(rank) from None
                if isinstance(answer, BaseException):
                    raise answer
        return [answers[rank] for rank in range(len(self._pipes))]


def _lost(rank: int) -> BenchmarkError:
    return BenchmarkError(
        f"rank {rank}: its process ended before it answered; where the system killed it for want of memory, give fewer "
        "--gpus, or lower loader.cache_bytes"
    )


def _check_sendable(transform: Transform | None) -> None:
    try:
        pickle.dumps(transform)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        raise ConfigError(
            f"transform: several ranks run in processes of their own, which need one that pickles, and this doesn't "
            f"({e}); define it at the top level of a module, or examine gpus=1"
        ) from e
