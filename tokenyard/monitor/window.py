"""From what was collected in a window to its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

from tokenyard.datasets.loader import TokenLoader
from tokenyard.monitor.collector import Collector, StepTimes
from tokenyard.monitor.figures import Figures, Gpu, Makers, Making, Source
from tokenyard.monitor.system.load import System
from tokenyard.monitor.verdict import WAIT_SHARE
from tokenyard.stages import BatchTimes, Stage, StageTime
from tokenyard.storage.cache.counts import Counts
from tokenyard.storage.mounts import file_system, quick_mode


@dataclass(frozen=True, kw_only=True)
class Window:
    """What was collected.

    Attributes:
        loader: whose batches they are.
        steps: at least two of them.
        made: the batches that were made.
        seconds: how long it lasted.
        cache: what the loader's cache did in it, if there is one.
        held_before: whether one step of the window before waited for long.
    """

    loader: TokenLoader
    steps: Sequence[StepTimes]
    made: Sequence[BatchTimes]
    seconds: float
    cache: Counts | None = None
    held_before: bool = False

    @property
    def usual(self) -> Sequence[StepTimes]:
        """The steps, without the first one of an iteration, if there are others."""
        return [step for step in self.steps if not step.is_first] or self.steps

    @property
    def is_held(self) -> bool:
        """Whether one step alone waited for a good part of the window."""
        longest = max(step.waited for step in self.usual)
        return longest >= WAIT_SHARE * sum(step.waited + step.computed for step in self.usual)

    def figures(self, system: System, queued_ns: int | None, gpu: float | str, collector: Collector) -> Figures:
        """Return the figures, with what the sampler saw."""
        usual = self.usual
        waits = sorted(step.waited for step in usual)
        # One hiccup says nothing of how a run is set up; one in each window does.
        counted = waits if self.held_before else waits[:-1] or waits
        return Figures(
            rank=self.loader.rank,
            world_size=self.loader.world_size,
            step=self.steps[-1].step,
            seconds=self.seconds,
            stepping_seconds=min(self.seconds, sum(step.waited + step.computed for step in usual)),
            num_steps=len(self.steps),
            num_batches=sum(step.num_batches for step in self.steps),
            num_tokens=sum(step.num_tokens for step in self.steps),
            wait_ms=1e3 * fmean(counted),
            median_wait_ms=1e3 * median(waits),
            compute_ms=1e3 * median(step.computed for step in usual),
            making=self._making(queued_ns),
            source=_source(self.loader),
            system=system,
            cache=self.cache,
            gpu=Gpu(
                utilisation=gpu if isinstance(gpu, float) else None,
                unknown=gpu if isinstance(gpu, str) else "",
                has_cuda=collector.device is not None,
                batch_bytes=collector.batch_bytes,
                pins_memory=self.loader.pins_memory,
            ),
        )

    def _making(self, queued_ns: int | None) -> Making:
        stages: dict[Stage, StageTime] = {}
        for times in self.made:
            for stage, taken in times.stages.items():
                before = stages.get(stage, StageTime(0, 0))
                stages[stage] = StageTime(before.wall + taken.wall, before.cpu + taken.cpu)
        settings = self.loader.settings
        makers: Makers = "workers" if settings.num_workers else "threads" if settings.num_threads else "loop"
        making = Making(
            makers=makers,
            num_makers=settings.num_workers or settings.num_threads,
            prefetch_factor=self.loader.prefetch_factor,
            num_batches=len(self.made),
            stages=stages,
            queued_ns=queued_ns,
            decoding_share=sum("decode" in times.stages for times in self.made) / max(1, len(self.made)),
        )
        if queued_ns is None:
            return making
        if makers == "loop":  # its thread also queues while it trains
            return replace(making, queued_ns=min(queued_ns, sum(making.waited_ns.values())))
        # Some of the batches were made in the window before; what they queued is not in this one's count.
        made_ns = sum(taken.wall for taken in stages.values())
        room_ns = 1e9 * self.seconds * making.num_makers
        return replace(making, queued_ns=int(queued_ns * max(1.0, made_ns / room_ns)))


def _source(loader: TokenLoader) -> Source:
    corpora = loader.dataset.corpora
    paths = [str(corpus.path) for corpus in corpora]
    remote = [path for path in paths if "://" in path or quick_mode(Path(path)) == "pread"]
    first = (remote or paths)[0]
    return Source(
        formats=tuple(sorted({corpus.format for corpus in corpora})),
        file_system=first.partition("://")[0] if "://" in first else file_system(Path(first)),
        is_remote=bool(remote),
    )
