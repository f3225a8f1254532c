"""An examination: settings tried by one rank, the one to take checked by all, and what follows from it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokenyard.bench.steps import OnStep
from tokenyard.config import LoaderConfig, TrainConfig, load_config
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.transforms import Transform
from tokenyard.doctor.changes import in_words
from tokenyard.doctor.check import Check, check
from tokenyard.doctor.limits import limit_of
from tokenyard.doctor.need import Need, need_of
from tokenyard.doctor.notes import notes
from tokenyard.doctor.page_cache import is_cold, make_cold
from tokenyard.doctor.progress import Progress
from tokenyard.doctor.ranks import Ranks, most_processes
from tokenyard.doctor.report import DoctorReport
from tokenyard.doctor.scratch_cache import scratch_cache
from tokenyard.doctor.settings import DEFAULT_SECONDS, DoctorSettings
from tokenyard.doctor.source import source_of
from tokenyard.doctor.sweep import choose, steps_together, sweep
from tokenyard.doctor.trial import Trial, TrialJob
from tokenyard.monitor.system.counters import own_cores

#: Seconds that dropping files from the page cache may take before a trial.
_DROPPING_S = 2.0
#: How many times longer than planned a trial may take, when few steps come.
_MOST_TIMES = 4
#: A setting that failed the check gives way to one that gave so much more by itself.
_MORE = 1.1


def examine(
    config: str | os.PathLike[str] | Mapping[str, Any] | TrainConfig,
    *,
    step_ms: float | None = None,
    gpus: int = 1,
    nodes: int = 1,
    transform: Transform | None = None,
    seconds: float = DEFAULT_SECONDS,
    warm: bool = False,
    on_step: OnStep | None = None,
) -> DoctorReport:
    """Run the loader of a job alone, and find out whether it will feed so many GPUs; what `tokenyard doctor` does.

    With several GPUs each rank runs in a process of its own, so a program that calls this needs the guard
    `if __name__ == "__main__":`, and the transform must pickle.

    Args:
        config: settings of the job, as `build_dataloader` takes them.
        step_ms: what an optimizer step computes, in ms; without it the shortest step is told that doesn't wait.
        gpus: data-parallel ranks on this node; all of them run here.
        nodes: how many such nodes the job has.
        transform: as `build_dataloader` takes it.
        seconds: what is measured takes about so long in all, beside the processes that begin.
        warm: whether the page cache is left as it is. Else the corpus's files are dropped from it before each trial, so
            that a first epoch is measured.
        on_step: told of each trial before it begins.

    Raises:
        ConfigError: a setting is wrong, or doesn't fit the corpus or the ranks.
        StorageError: the corpus can't be read, or there is no room for a cache.
        DataError: what it holds is damaged.
        BenchmarkError: a rank's process ended, or didn't answer.
    """
    settings = DoctorSettings(
        config=load_config(config),
        transform=transform,
        step_ms=step_ms,
        gpus=gpus,
        nodes=nodes,
        seconds=seconds,
        warm=warm,
    )
    return _Examination(settings, on_step).run()


class _Examination:
    """The trials of one examination, each with the page cache and the job's cache as a first epoch finds them."""

    def __init__(self, settings: DoctorSettings, on_step: OnStep | None) -> None:
        self._settings = settings
        self._config = settings.config
        self._progress = Progress(settings.seconds, on_step)
        self._cores = len(own_cores())
        without_cache = self._config.loader.model_copy(update={"cache": None})
        self._source = source_of(open_dataset(self._config.model_copy(update={"loader": without_cache})).corpora)

    def run(self) -> DoctorReport:
        settings = self._settings
        first = self._alone(self._config.loader)
        need = need_of(
            first.passed, gpus=settings.gpus, world_size=settings.world_size, step_seconds=settings.step_seconds
        )
        until = time.monotonic() + settings.sweep_seconds
        tried, is_whole = sweep(
            first, lambda loader: self._alone(loader) if time.monotonic() < until else None, need, self._cores
        )
        found = self._checked(tried, need)
        ceiling = self._alone(found.loader, is_cold=False, same_batch=True)
        warm = None
        if is_cold(first):
            # What was read until here is less, or was dropped again; so the same batches are taken twice.
            read = self._alone(found.loader, is_cold=False)
            warm = self._alone(found.loader, is_cold=False, most_batches=read.passed.batches)
        is_fed = need.step_seconds is not None and found.is_fed(need)
        return DoctorReport(
            need=need,
            configured=self._config.loader,
            cores=self._cores,
            source=self._source,
            ceiling=ceiling,
            tried=tried,
            warm=warm,
            check=found,
            limit=None if is_fed else limit_of(found, need, self._config, more_may_help=not is_whole),
            notes=tuple(notes(settings, self._source, tried, found, ceiling, warm, is_whole=is_whole)),
        )

    def _checked(self, tried: Sequence[Trial], need: Need) -> Check:
        """The setting to take by all ranks; where they aren't fed with it, also what gave more by itself."""
        chosen = choose(tried, need, self._cores)
        most = max(tried, key=lambda trial: steps_together(trial, need, self._cores))
        settings = self._settings
        count = min(settings.gpus, most_processes(self._cores))
        with Ranks(settings.transform, gpus=settings.gpus, world_size=settings.world_size, count=count) as ranks:

            def try_together(loader: LoaderConfig, step_seconds: float) -> list[Trial]:
                how = f"{count} rank{'s' * (count > 1)} with {in_words(loader)}"
                self._progress.tell(f"{how}, {f'{1e3 * step_seconds:.3g} ms a step' if step_seconds else 'no steps'}")
                return self._trials(ranks, loader, settings.check_seconds, step_seconds=step_seconds)

            found = check(try_together, chosen.loader, need)
            if need.step_seconds is None or found.is_fed(need) or most is chosen:
                return found
            other = check(try_together, most.loader, need)
            return other if other.steps_per_second > _MORE * found.steps_per_second or other.is_fed(need) else found

    def _alone(
        self, loader: LoaderConfig, *, is_cold: bool = True, same_batch: bool = False, most_batches: int | None = None
    ) -> Trial:
        """A trial of one rank, in this process."""
        settings = self._settings
        self._progress.tell("one batch over and over" if same_batch else in_words(loader))
        with Ranks(settings.transform, gpus=1, world_size=settings.world_size, count=1) as rank:
            (trial,) = self._trials(
                rank,
                loader,
                settings.trial_seconds,
                is_cold=is_cold,
                same_batch=same_batch,
                most_batches=most_batches,
            )
        return trial

    def _trials(
        self,
        ranks: Ranks,
        loader: LoaderConfig,
        seconds: float,
        *,
        step_seconds: float = 0.0,
        is_cold: bool = True,
        same_batch: bool = False,
        most_batches: int | None = None,
    ) -> list[Trial]:
        share = None
        if is_cold and not self._settings.warm and self._source.files:
            share = make_cold(self._source.files, _DROPPING_S)
        with scratch_cache(self._config.model_copy(update={"loader": loader})) as config:
            job = TrialJob(
                config=config,
                world_size=self._settings.world_size,
                seconds=seconds,
                at_most=_MOST_TIMES * seconds,
                most_batches=most_batches,
                step_seconds=step_seconds,
                same_batch=same_batch,
            )
            trials = ranks.try_out(job)
        # Whose cache it was is no part of the setting.
        return [replace(trial, loader=loader, resident_share=share) for trial in trials]
