"""What keeps a loader from giving more: the verdict that a `tokenyard.Monitor` would give at the job's steps."""

from __future__ import annotations

from dataclasses import replace

from tokenyard.config import TrainConfig
from tokenyard.doctor.check import Check, wait_share_of
from tokenyard.doctor.need import Need
from tokenyard.doctor.trial import Trial
from tokenyard.monitor.verdict import Kind, Verdict, judge

#: Of the time that a step's data took, what a step computes at most where a verdict is asked for.
_COMPUTING_SHARE = 0.85

IN_WORDS: dict[Kind, str] = {
    "disk": "the disk",
    "network": "the network",
    "decode": "decoding",
    "python": "the transform, or other work in Python",
    "copy": "copying to the GPU",
    "threads": "finding, copying and making tensors",
    "prefetch": "batches that now and then come late",
    "cpu": "the cores",
    "straggler": "a rank",
    "not the loader": "not the loader",
}


def limit_of(check: Check, need: Need, config: TrainConfig, *, more_may_help: bool) -> Verdict | None:
    """Return what holds back the rank that was given least; None where too few steps came to tell.

    None also without a step time: what is short at the few ms that a loader alone takes changes with whatever else the
    machine does, and says little of the job's steps.

    Where what all get is enough on average, it is what steps wait for now and then.

    Args:
        check: of the setting that was taken.
        need: what the job asks for.
        config: of the job.
        more_may_help: whether more threads or workers are still worth a try.
    """
    if need.step_seconds is None:
        return None
    if check.steps_per_second * need.step_seconds >= 1:
        waiting = max(check.paced, key=lambda trial: wait_share_of(trial, check.step_seconds))
        return None if waiting.figures is None else judge(waiting.figures)
    slowest = min(check.fast, key=lambda trial: trial.steps_per_second)
    return _of_rate(slowest, need.step_seconds, config, more_may_help)


def _of_rate(trial: Trial, step_seconds: float, config: TrainConfig, more_may_help: bool) -> Verdict | None:
    figures = trial.figures
    if figures is None:
        return None
    # As fast as they can, threads have no time to rest, so what they are short of is seen at its clearest. A step of
    # the job would compute for a part of that time, and wait for the rest.
    data_ms = 1e3 / max(1e-9, trial.steps_per_second)
    computing = min(_COMPUTING_SHARE * data_ms, 1e3 * step_seconds)
    waiting = data_ms - computing
    verdict = judge(
        replace(
            figures,
            compute_ms=computing,
            wait_ms=waiting,
            median_wait_ms=waiting,
            making=replace(figures.making, more_may_help=more_may_help),
        )
    )
    if verdict is None:
        return None
    # The check's own waits, at the step time, are another figure: what was read ahead hides some of these.
    verdict = replace(verdict, evidence=f"reckoned from batches taken as fast as they came: {verdict.evidence}")
    if verdict.kind == "network" and config.loader.cache is None and _urls(config):
        advice = f"read through a folder on a local disk (loader.cache), which fetches ahead; or {verdict.advice}"
        return replace(verdict, advice=advice)
    return verdict


def _urls(config: TrainConfig) -> list[str]:
    data = config.data
    named = [data.path] if data.sources is None else [source.path for source in data.sources]
    paths = [path for one in named for path in ([one] if isinstance(one, str) else one or [])]
    return [path for path in paths if "://" in path and not path.startswith("file://")]
