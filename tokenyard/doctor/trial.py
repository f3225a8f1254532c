"""One setting of the loader tried for some seconds, by one rank."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from tokenyard.config import LoaderConfig, TrainConfig
from tokenyard.datasets.loader import TokenLoader, build_dataloader
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.transforms import Transform
from tokenyard.doctor.passing import Passed, go_through
from tokenyard.doctor.same_batch import SameBatch
from tokenyard.monitor.figures import Figures
from tokenyard.monitor.monitor import Monitor

#: Bytes of decoded data that the ceiling may keep: its one batch is to be decoded once.
_CEILING_CACHE_BYTES = 1 << 30
#: How many times longer than a trial a report of the monitor's waits, so that one holds all of it.
_TICKS = 5


@dataclass(frozen=True, kw_only=True)
class TrialJob:
    """What to try.

    Attributes:
        config: of the job, with the loader's settings that are tried.
        world_size: data-parallel ranks of the job.
        seconds: how long, at least.
        at_most: when to stop whatever came.
        most_batches: when to stop too: after so many of them.
        step_seconds: what a step computes; 0 takes batches as they come.
        same_batch: whether the first micro-batch comes over and over, so that nothing is read or decoded.
    """

    config: TrainConfig
    world_size: int
    seconds: float
    at_most: float
    most_batches: int | None = None
    step_seconds: float = 0.0
    same_batch: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one rank saw.

    Attributes:
        loader: the settings that were tried.
        passed: what the loop took.
        steps_per_second: optimizer steps, as far as this rank is concerned, while nothing but the loader takes time.
        cpu_seconds: of the processor, by the loader and its threads or workers, while the loop went on.
        figures: as a `tokenyard.Monitor` makes them; None where fewer than four steps came.
        resident_share: of the corpus's files, in memory before the trial; None where nobody asked or the system can't
            tell.
    """

    loader: LoaderConfig
    passed: Passed
    steps_per_second: float
    cpu_seconds: float
    figures: Figures | None
    resident_share: float | None = None

    @property
    def cores(self) -> float:
        """Cores that were kept busy, on average."""
        return self.cpu_seconds / max(1e-9, self.passed.seconds)

    @property
    def cpu_seconds_per_step(self) -> float:
        """Of the processor, for the micro-batches that this rank has in a step."""
        return self.cpu_seconds / max(1e-9, self.passed.steps)


def try_out(job: TrialJob, transform: Transform | None, rank: int, begin: Callable[[], None] = lambda: None) -> Trial:
    """Make a loader, call `begin`, and go through it. Nothing of the loader is left afterwards. Raises what it does."""
    loader = _ceiling_loader(job, transform, rank) if job.same_batch else _loader(job, transform, rank)
    try:
        begin()
        return _measured(loader, job)
    finally:
        del loader
        gc.collect()  # maps of files would keep their pages in memory, whoever asks to drop them


def _measured(loader: TokenLoader, job: TrialJob) -> Trial:
    with Monitor(loader, every_seconds=job.seconds * _TICKS, quiet=True) as monitor:
        before = time.process_time()
        passed = go_through(
            loader,
            seconds=job.seconds,
            at_most=job.at_most,
            most_batches=job.most_batches,
            step_seconds=job.step_seconds,
            once=not job.same_batch,
        )
        cpu = time.process_time() - before
    reports = [report.figures for report in monitor.reports]
    figures = max(reports, key=lambda found: found.num_steps, default=None)
    if figures is not None and figures.making.makers == "workers":  # whose time is not this process's
        made = figures.making
        per_batch = sum(taken.cpu for taken in made.stages.values()) / 1e9 / max(1, made.num_batches)
        cpu += per_batch * passed.batches
    return Trial(
        loader=loader.settings,
        passed=passed,
        steps_per_second=_rate(passed, figures),
        cpu_seconds=cpu,
        figures=figures,
    )


def _rate(passed: Passed, figures: Figures | None) -> float:
    """Steps per second, no more than those who make batches could go on with.

    The first batches of an epoch read and decode blocks from which many later ones come. They come before the loop is
    under way, so they count by the time that they took to make.
    """
    rate = passed.steady_rate
    if figures is None:
        return rate
    making = figures.making
    made_seconds = sum(taken.wall for taken in making.stages.values()) / 1e9
    batches = making.num_batches * max(1, making.num_makers) / max(1e-9, made_seconds)
    return min(rate, batches * passed.steps / passed.batches) if making.num_batches else rate


def _loader(job: TrialJob, transform: Transform | None, rank: int) -> TokenLoader:
    return build_dataloader(job.config, rank, job.world_size, transform=transform)


def _ceiling_loader(job: TrialJob, transform: Transform | None, rank: int) -> TokenLoader:
    loader = job.config.loader
    kept = loader.model_copy(update={"cache_bytes": max(loader.cache_bytes, _CEILING_CACHE_BYTES)})
    config = job.config.model_copy(update={"loader": kept})
    dataset = open_dataset(config, transform)
    return TokenLoader(dataset, SameBatch(make_batches(config, dataset, rank, job.world_size)), config.loader)
