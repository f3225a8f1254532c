"""A loop over a loader that does nothing with its batches: as fast as they come, or at the pace of a training step."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tokenyard.datasets.loader import TokenLoader

#: Steps that a loop has at least, where time allows: a verdict needs four, and the first one isn't looked at.
LEAST_STEPS = 6


@dataclass(kw_only=True)
class Passed:
    """What a loop took.

    Attributes:
        seconds: in all.
        steps: optimizer steps, each micro-batch counted as its part of one.
        batches: micro-batches.
        samples: padding included.
        tokens: likewise.
        steady_steps: as `steps`, without the micro-batches that threads or workers began with, which come together.
        batch_seconds: of each of these micro-batches, from the one before it.
        waits: seconds that each step waited for its micro-batches, but the first one of an iteration.
    """

    seconds: float = 0.0
    steps: float = 0.0
    batches: int = 0
    samples: int = 0
    tokens: int = 0
    steady_steps: float = 0.0
    batch_seconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def add(self, batch: _Batch, *, is_steady: bool) -> None:
        """Count a micro-batch."""
        self.seconds += batch.seconds
        self.steps += 1 / batch.per_step
        self.batches += 1
        self.samples += batch.samples
        self.tokens += batch.tokens
        if is_steady:
            self.steady_steps += 1 / batch.per_step
            self.batch_seconds.append(batch.seconds)
        if batch.step_waited is not None:
            self.waits.append(batch.step_waited)

    @property
    def steady_rate(self) -> float:
        """Steps per second once the loop was under way; of all of it, where that is less than a step."""
        if self.steady_steps < 1:
            return self.steps / max(1e-9, self.seconds)
        return self.steady_steps / max(1e-9, sum(self.batch_seconds))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batch:
    """`number`: in its iteration, from 0. `step_waited`: where a step ends that an iteration didn't begin with."""

    number: int
    seconds: float
    per_step: int
    samples: int
    tokens: int
    step_waited: float | None


def go_through(
    loader: TokenLoader,
    *,
    seconds: float,
    at_most: float,
    most_batches: int | None = None,
    step_seconds: float = 0.0,
    once: bool = False,
) -> Passed:
    """Go through a loader for some time, epoch 0 again and again.

    Args:
        loader: a new one.
        seconds: how long; longer where too few steps came.
        at_most: when to stop whatever came, in the middle of a step too.
        most_batches: when to stop too.
        step_seconds: what a step computes, in equal parts after each of its micro-batches; 0 takes them as they come.
        once: whether to stop at the end of the first epoch, however soon, unless too few steps came: the next one would
            find in memory what this one has read and decoded.
    """
    to_leave = max(1, loader.settings.num_workers or loader.settings.num_threads)
    found, beginning = Passed(), loader.state_dict()
    begun = time.perf_counter()
    is_first = True
    while True:
        with closing(_epoch(loader, step_seconds, beginning, begun + at_most)) as batches:
            for batch in batches:
                found.add(batch, is_steady=not is_first or batch.number >= to_leave)
                spent = time.perf_counter() - begun
                if spent >= at_most or found.batches == most_batches:
                    return found
                if spent >= seconds and found.steady_steps >= LEAST_STEPS:
                    return found
        if once and found.steady_steps >= LEAST_STEPS:
            return found
        is_first = False


def _epoch(loader: TokenLoader, step_seconds: float, beginning: Mapping[str, Any], until: float) -> Generator[_Batch]:
    loader.load_state_dict(beginning)  # also where an epoch has no end, and a source has ended the run
    end = loader.sampler.batches.plan.end
    step, per_step, waited, is_first = loader.step, loader.micro_batches_per_step, 0.0, True
    asked = time.perf_counter()
    for number, batch in enumerate(loader):
        waited += time.perf_counter() - asked
        samples, tokens = batch["input_ids"].shape[0], batch["input_ids"].numel()
        del batch
        if step_seconds:
            time.sleep(min(step_seconds / per_step, max(0.0, until - time.perf_counter())))
        step_done = loader.step != step
        now = time.perf_counter()
        yield _Batch(
            number=number,
            seconds=now - asked,
            per_step=per_step,
            samples=samples,
            tokens=tokens,
            step_waited=waited if step_done and not is_first else None,
        )
        asked = time.perf_counter()
        if step_done:
            if loader.step == end:  # what comes next may be an error: a source has ended the run
                return
            step, per_step, waited, is_first = loader.step, loader.micro_batches_per_step, 0.0, False
