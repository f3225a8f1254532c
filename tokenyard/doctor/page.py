"""An examination as one page of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tokenyard.bench.page_cache import MAX_COLD_SHARE
from tokenyard.display.quantities import digits, percent, with_unit
from tokenyard.doctor.changes import in_words
from tokenyard.doctor.limits import IN_WORDS
from tokenyard.doctor.report import DoctorReport
from tokenyard.doctor.sweep import steps_together, wait_p99
from tokenyard.doctor.trial import Trial


def told_need(report: DoctorReport) -> dict[str, Any]:
    """What the job asks for, by name."""
    need, source = report.need, report.source
    ranks = f"{need.gpus} of {need.world_size}" if need.world_size > need.gpus else str(need.gpus)
    found = {
        "corpus": f"{', '.join(source.formats)} on {', '.join(source.places) or 'an unknown file system'}, "
        f"{with_unit(source.num_bytes, 'bytes')}",
        "ranks here": f"{ranks}, on {report.cores} core{'s' * (report.cores > 1)}",
        "step of a rank": f"{_count(need.micro_batches)} micro-batch{'es' * (need.micro_batches != 1)}, "
        f"{_count(need.samples)} samples, {_count(need.tokens)} tokens",
    }
    if need.step_seconds is not None:
        for name, ranks_of in (("a rank takes", 1), ("the node takes", need.gpus)):
            found[name] = (
                f"{digits(ranks_of * need.samples / need.step_seconds)} samples/s, "
                f"{digits(ranks_of * need.tokens / need.step_seconds)} tokens/s at {1e3 * need.step_seconds:g} ms "
                "a step"
            )
    return found


def trials_table(report: DoctorReport) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """What one rank gave with each setting: a header and lines."""
    has_need = report.need.step_seconds is not None
    header = ["one rank alone", "batches/s", *(["of its need", "p99 wait"] if has_need else []), "cores", "page cache"]
    lines = [
        *(_line(report, trial, in_words(trial.loader) + _role(report, trial)) for trial in report.tried),
    ]
    if report.warm is not None:
        lines.append(_line(report, report.warm, f"{in_words(report.warm.loader)}, what it reads in memory", "warm"))
    lines.append(
        _line(report, report.ceiling, f"{in_words(report.ceiling.loader)}, one batch over and over", "ceiling")
    )
    return header, lines


def told_check(report: DoctorReport) -> dict[str, Any]:
    """What all ranks gave at once, by name."""
    check, need = report.check, report.need
    waits = check.wait_p99
    given = f"{digits(report.node_samples_per_second)} samples/s, as fast as they come"
    if need.steps_per_second is not None:
        given += f": {_times(check.steps_per_second / need.steps_per_second)} what the node takes"
    return {
        "loader": in_words(check.loader),
        "together": given,
        "at the step time": f"{1e3 * check.step_seconds:.3g} ms a step: waits {percent(check.wait_share)} of it, p99 "
        f"{'-' if waits is None else with_unit(1e3 * waits, 'ms')} of {len(check.waits)} steps",
        "cores busy then": f"{check.cores:.2f} of {report.cores}",
    }


def sentence(report: DoctorReport) -> str:
    """Whether the ranks are fed, by which figures; and what the limit is where they are not."""
    need, check = report.need, report.check
    gpus = f"{need.gpus} GPU{'s' * (need.gpus > 1)}"
    gives = f"gives {digits(report.node_samples_per_second)}"
    if need.step_seconds is None:
        are = f"{gpus} {'are' if need.gpus > 1 else 'is'}"
        step = f"{1e3 * check.step_seconds:.3g} ms"
        if not check.is_fed(need):
            return (
                f"no step time was found with which {are} fed: steps of {step} wait {percent(check.wait_share)} of "
                f"their time; {in_words(check.loader)} {gives} samples/s"
            )
        return f"{are} fed with steps of {step} or longer: {in_words(check.loader)} {gives} samples/s"
    takes = f"{gpus} at {1e3 * need.step_seconds:g} ms take{'s' * (need.gpus == 1)} {_node_samples(report)} samples/s"
    times = _times(check.steps_per_second * need.step_seconds)
    if report.is_fed_as_configured:
        return f"fed: {takes}; {in_words(check.loader)} {gives} ({times})"
    if report.is_fed:
        first = report.tried[0]
        now = steps_together(first, need, report.cores) * need.step_seconds
        return (
            f"not fed as it is, but after a change: {takes}; {in_words(first.loader)} gives about {_times(now)} that, "
            f"{in_words(check.loader)} {gives} ({times})"
        )
    late = ""
    if check.steps_per_second * need.step_seconds >= 1:
        late = f", but steps wait {percent(check.wait_share)} of their time"
    best = f", the best of {len(report.tried)} settings," if len(report.tried) > 1 else ""
    return f"not fed: {takes}; {in_words(check.loader)}{best} {gives} ({times}){late}{_limited(report)}"


def advice(report: DoctorReport) -> Iterator[str]:
    """What the limit was seen by, and what to change."""
    if report.limit is not None:
        yield f"seen by: {report.limit.evidence}"
        yield f"to change: {report.limit.advice}"
    elif report.is_fed is False:
        yield "too few steps came to tell what the limit is; measure for longer (--seconds)"


def _limited(report: DoctorReport) -> str:
    return "" if report.limit is None else f"; the limit is {IN_WORDS[report.limit.kind]}"


def _role(report: DoctorReport, trial: Trial) -> str:
    is_own, is_checked = trial is report.tried[0], trial.loader == report.check.loader
    return f" ({'as it is' if is_own else ''}{', ' * (is_own and is_checked)}{'checked' if is_checked else ''})" * (
        is_own or is_checked
    )


def _line(report: DoctorReport, trial: Trial, name: str, page_cache: str | None = None) -> list[str]:
    need = report.need
    found = [name, digits(trial.steps_per_second * need.micro_batches)]
    if need.step_seconds is not None:
        waits = wait_p99(trial, need)
        found += [
            _times(trial.steps_per_second * need.step_seconds),
            "-" if waits is None else with_unit(1e3 * waits, "ms"),
        ]
    return [*found, f"{trial.cores:.2f}", page_cache or _page_cache(trial)]


def _page_cache(trial: Trial) -> str:
    if trial.resident_share is None:
        return "-"
    return "cold" if trial.resident_share <= MAX_COLD_SHARE else f"{trial.resident_share:.0%} warm"


def _node_samples(report: DoctorReport) -> str:
    need = report.need
    assert need.step_seconds is not None
    return digits(need.gpus * need.samples / need.step_seconds)


def _count(number: float) -> str:
    """A number of which there are whole ones, unless it is a mean."""
    return f"{number:,.0f}" if abs(number - round(number)) < 1e-6 * number else digits(number)


def _times(factor: float) -> str:
    return f"{digits(factor)}x"
