"""What a loader tells its monitor: what each step waited and computed, and what each batch took to make."""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing
from typing import NamedTuple, TypeVar

import torch

from tokenyard.datasets.watching import Given
from tokenyard.stages import BatchTimes

T = TypeVar("T")


class StepTimes(NamedTuple):
    """One step of this rank, in seconds.

    Attributes:
        step: its number in the run.
        waited: for its batches.
        computed: between them, until the next step's first one was asked for.
        num_batches: its micro-batches.
        num_tokens: their tokens, padding included.
        is_first: whether an iteration began with it, so that nothing was read ahead.
    """

    step: int
    waited: float
    computed: float
    num_batches: int
    num_tokens: int
    is_first: bool


class Collector:
    """A `Watcher` that keeps what it is told until it is taken. Adding costs microseconds, in any thread.

    Attributes:
        makers: who made batches: the process's id and the system's number of the thread.
        batch_bytes: of the tensors of the batch that an iteration began with.
        device: the number of the loop's CUDA device, once it has one.
    """

    def __init__(self) -> None:
        self._steps: deque[StepTimes] = deque()
        self._made: deque[BatchTimes] = deque()
        self.makers: set[tuple[int, int]] = set()
        self.batch_bytes = 0
        self.device: int | None = None

    def passing(self, batches: Given) -> Given:
        """Yield batches as they are; see `Watcher`. A step that is left in its middle is not counted."""
        waited = computed = 0.0
        num_batches = num_tokens = 0
        is_first = True
        with closing(batches):
            asked = time.perf_counter()
            for request, batch in batches:
                given = time.perf_counter()
                if is_first and not num_batches:
                    self.batch_bytes = sum(tensor.nbytes for tensor in batch.values())
                if self.device is None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                    self.device = torch.cuda.current_device()
                num_tokens += batch["input_ids"].numel()
                yield request, batch
                del batch  # while the next one is waited for, only the caller holds it
                waited += given - asked
                asked = time.perf_counter()
                computed += asked - given
                num_batches += 1
                if request.step_done:
                    self._steps.append(StepTimes(request.step, waited, computed, num_batches, num_tokens, is_first))
                    waited = computed = 0.0
                    num_batches = num_tokens = 0
                    is_first = False

    def made(self, times: BatchTimes) -> None:
        """Take note of what a batch took; see `Watcher`."""
        self._made.append(times)
        self.makers.add((times.process, times.thread))

    def take_steps(self) -> list[StepTimes]:
        """Return the steps since the last call."""
        return _taken(self._steps)

    def take_made(self) -> list[BatchTimes]:
        """Return the batches made since the last call."""
        return _taken(self._made)

    @property
    def num_steps(self) -> int:
        """The steps that nobody has taken yet."""
        return len(self._steps)


def _taken(kept: deque[T]) -> list[T]:
    # By their number, since other threads go on adding.
    return [kept.popleft() for _ in range(len(kept))]
