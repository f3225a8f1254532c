"""Which settings of the loader are tried, in which order, and which of them is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tokenyard.bench.rates import percentile
from tokenyard.config import LoaderConfig
from tokenyard.doctor.need import HEADROOM, WAIT_SHARE, Need
from tokenyard.doctor.replay import replayed_waits
from tokenyard.doctor.trial import Trial

#: Threads that only wait cost no core, and storage takes so many requests at once.
_MOST_THREADS = 64
#: More threads or workers that bring less than this are not followed by still more.
_GAIN = 1.10
#: What others are taken for that give less than the most; and the job's own, where nobody said what it needs.
_EQUAL, _GOOD_ENOUGH = 0.90, 0.70
_PREFETCH_FACTOR = 4
#: How many times further ahead is tried where steps wait now and then, and how often.
_FURTHER, _TIMES_FURTHER = 4, 2

#: Tries a setting; None when the time is over.
TryOut = Callable[[LoaderConfig], Trial | None]


def sweep(first: Trial, try_out: TryOut, need: Need, cores: int) -> tuple[list[Trial], bool]:
    """Try settings out: more and more threads, more and more workers; reading further ahead, where steps wait.

    Args:
        first: the job's own, by one rank.
        try_out: tries another one.
        need: what the job asks for.
        cores: of this machine.

    Returns all trials, the first one first, and whether all that was worth it was tried before the time was over.
    """
    tried = [first]
    configured = first.loader
    is_whole = True

    def add(settings: LoaderConfig) -> Trial | None:
        for trial in tried:
            if _how(trial.loader) == _how(settings):
                return trial
        found = try_out(settings)
        if found is None:
            nonlocal is_whole
            is_whole = False
        else:
            tried.append(found)
        return found

    def further(trial: Trial) -> None:
        for _ in range(_TIMES_FURTHER):
            if not makers(trial.loader) or not _is_late(trial, need):
                return
            factor = _FURTHER * (trial.loader.prefetch_factor or _PREFETCH_FACTOR)
            found = add(trial.loader.model_copy(update={"prefetch_factor": factor}))
            if found is None:
                return
            trial = found

    wanted = need.steps_per_second
    if wanted is not None and steps_together(first, need, cores) >= wanted:
        further(first)
    # Where the job's own is far from enough, fewer are no way out.
    lowest = 1 if need.step_seconds is None or is_enough(first, need, cores, headroom=1.0) else makers(configured)
    for with_number, most in ((_with_threads, _MOST_THREADS), (_with_workers, cores)):
        best, number = 0.0, max(1, min(lowest, most))
        while number <= most:
            trial = add(with_number(configured, number))
            if trial is None or trial.steps_per_second < _GAIN * best or _is_plenty(trial, need):
                break
            best = trial.steps_per_second
            number *= 4 if number * 4 <= most and 4 * best < (need.steps_per_second or 0.0) else 2
    further(choose(tried, need, cores))
    return tried, is_whole


def choose(tried: Sequence[Trial], need: Need, cores: int) -> Trial:
    """Return the trial of the setting to take.

    That is the job's own if it is enough, else the least that is, counting threads before workers; where nothing is,
    the least of those that give the most. Where nobody said what a step takes, all that would be lost is counted.

    Args:
        tried: the job's own first.
        need: what the job asks for.
        cores: of this machine, which all ranks share.
    """
    configured = tried[0].loader
    by_cost = sorted(tried, key=lambda trial: _cost(trial.loader, configured))
    # The job's own is held to what it needs, others to some more: nobody changes settings to be fed by a hair.
    enough = [
        trial
        for trial in by_cost
        if is_enough(trial, need, cores, headroom=1.0 if trial.loader == configured else HEADROOM)
    ]
    if enough:
        return enough[0]
    together = {id(trial): steps_together(trial, need, cores) for trial in by_cost}
    most = max(together.values())
    kept = _GOOD_ENOUGH if need.step_seconds is None else _EQUAL
    return next(
        trial for trial in by_cost if together[id(trial)] >= (kept if trial.loader == configured else _EQUAL) * most
    )


def is_enough(trial: Trial, need: Need, cores: int, *, headroom: float) -> bool:
    """Whether all ranks would have so many times what they need, as far as one alone and the cores can tell."""
    wanted = need.steps_per_second
    return wanted is not None and steps_together(trial, need, cores) >= headroom * wanted and not _is_late(trial, need)


def steps_together(trial: Trial, need: Need, cores: int) -> float:
    """Steps per second that the cores allow each rank, if all need what this one did, and that one alone gives."""
    return min(trial.steps_per_second, cores / max(1e-9, need.gpus * trial.cpu_seconds_per_step))


def wait_p99(trial: Trial, need: Need) -> float | None:
    """Seconds that all but one in a hundred steps would wait at most; None without a step time."""
    if need.step_seconds is None:
        return None
    per_step = max(1, round(need.micro_batches))
    ahead = makers(trial.loader) * (trial.loader.prefetch_factor or _PREFETCH_FACTOR)
    waits = replayed_waits(trial.passed.batch_seconds, per_step=per_step, step_seconds=need.step_seconds, ahead=ahead)
    # The first step has nothing read ahead, as in a job.
    return percentile(waits[1:], 0.99) if len(waits) > 1 else None


def makers(loader: LoaderConfig) -> int:
    """Threads or workers that make batches; 0 where the loop does."""
    return loader.num_workers or loader.num_threads


def _is_late(trial: Trial, need: Need) -> bool:
    """Whether steps wait now and then, though batches come quickly enough on average."""
    late = wait_p99(trial, need)
    return late is not None and need.step_seconds is not None and late >= WAIT_SHARE * need.step_seconds


def _is_plenty(trial: Trial, need: Need) -> bool:
    """Whether one rank would have several times what it needs."""
    wanted = need.steps_per_second
    return wanted is not None and trial.steps_per_second >= 4 * HEADROOM * wanted


def _with_threads(configured: LoaderConfig, number: int) -> LoaderConfig:
    # The others say something of workers alone.
    plain = {"num_workers": 0, "persistent_workers": False, "multiprocessing_context": None}
    return configured.model_copy(update={**plain, "num_threads": number})


def _with_workers(configured: LoaderConfig, number: int) -> LoaderConfig:
    return configured.model_copy(update={"num_workers": number})


def _how(loader: LoaderConfig) -> tuple[Any, ...]:
    """What makes a difference: threads are not used with workers."""
    factor = loader.prefetch_factor or _PREFETCH_FACTOR
    return loader.num_workers, 0 if loader.num_workers else loader.num_threads, factor


def _cost(loader: LoaderConfig, configured: LoaderConfig) -> tuple[Any, ...]:
    return (
        loader != configured,
        loader.num_workers,
        loader.num_threads,
        loader.prefetch_factor or _PREFETCH_FACTOR,
    )
