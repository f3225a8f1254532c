"""One setting checked by all ranks of a node at once: what they give together, and what steps wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenyard.bench.rates import percentile
from tokenyard.config import LoaderConfig
from tokenyard.doctor.need import HEADROOM, WAIT_SHARE, Need
from tokenyard.doctor.trial import Trial

#: Where nobody said what a step takes, so many step times are tried, each a little longer than the steps before took.
_STEP_TIMES, _LONGER = 4, 1.1

#: Lets all ranks try a setting, with a step that computes so many seconds, and returns what each saw.
TryTogether = Callable[[LoaderConfig, float], list[Trial]]


@dataclass(frozen=True, kw_only=True)
class Check:
    """What all ranks saw.

    Attributes:
        loader: the setting.
        gpus: ranks of the node; where fewer ran, the sums are those of what ran.
        fast: of each rank, batches taken as fast as they came.
        paced: of each rank, at the step time.
        step_seconds: that step time: the job's, else the shortest one found.
    """

    loader: LoaderConfig
    gpus: int
    fast: Sequence[Trial]
    paced: Sequence[Trial]
    step_seconds: float

    @property
    def steps_per_second(self) -> float:
        """Steps that each of the node's ranks can have, when all share evenly what they gave together."""
        return _together(self.fast, self.gpus)

    @property
    def waits(self) -> list[float]:
        """Seconds that steps waited at the step time, of all ranks."""
        return [wait for trial in self.paced for wait in trial.passed.waits]

    @property
    def wait_p99(self) -> float | None:
        """Seconds that all but one in a hundred of them waited at most."""
        return percentile(self.waits, 0.99) if self.waits else None

    @property
    def wait_share(self) -> float:
        """Of a step, of the rank that waits most, since others wait for it; one hiccup of each is left out."""
        return max(wait_share_of(trial, self.step_seconds) for trial in self.paced)

    @property
    def cores(self) -> float:
        """Cores that were busy with all ranks that ran, at the step time."""
        return sum(trial.cores for trial in self.paced)

    def is_fed(self, need: Need) -> bool:
        """Whether they gave what all ranks of the node need, and steps didn't wait."""
        wanted = need.steps_per_second or 1 / self.step_seconds
        return self.steps_per_second >= wanted and self.wait_share < WAIT_SHARE


def check(try_together: TryTogether, loader: LoaderConfig, need: Need) -> Check:
    """Let all ranks try a setting, as fast as they can and then at the step time.

    Where nobody said what a step takes, the shortest one is looked for with which none waits.
    """
    fast = try_together(loader, 0.0)
    step_seconds = need.step_seconds or HEADROOM / max(1e-9, _together(fast, need.gpus))
    found = Check(
        loader=loader,
        gpus=need.gpus,
        fast=fast,
        paced=try_together(loader, step_seconds),
        step_seconds=step_seconds,
    )
    for _ in range(_STEP_TIMES - 1):
        if need.step_seconds is not None or found.is_fed(need):
            break
        step_seconds = _LONGER * step_seconds / (1 - found.wait_share)
        found = Check(
            loader=loader,
            gpus=need.gpus,
            fast=fast,
            paced=try_together(loader, step_seconds),
            step_seconds=step_seconds,
        )
    return found


def wait_share_of(trial: Trial, step_seconds: float) -> float:
    """Return what steps of one rank waited, as a share of a step; one hiccup is left out where a monitor saw them."""
    if trial.figures is not None:
        return trial.figures.wait_share
    waits = sum(trial.passed.waits) / max(1, len(trial.passed.waits))
    return waits / (waits + step_seconds)


def _together(trials: Sequence[Trial], gpus: int) -> float:
    return sum(trial.steps_per_second for trial in trials) / gpus
