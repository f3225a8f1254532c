"""Whether all ranks have equally many steps, and whether the run comes to its last one."""

from __future__ import annotations

from tokenyard.datasets.order.segment import ENDLESS
from tokenyard.preflight.partition import batches_of, rank_numbers
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, Status, passed, worst


def steps_line(planned: Planned) -> Line:
    """Ask ranks for their own number of steps and micro-batches. Raises ConfigError, StorageError, DataError."""
    if planned.is_large_budget:
        return passed(
            "steps", "not counted: how many there are depends on the lengths of all rows; ranks share each step"
        )
    numbers = rank_numbers(planned)
    counts: dict[tuple[int, int], list[int]] = {}
    for rank in numbers:
        batches = batches_of(planned, rank)
        first, stop = batches.epoch_range(0)
        counted = min(stop - first, planned.steps) if stop >= ENDLESS else stop - first
        counts.setdefault((counted, batches.num_micro_batches(first, first + counted)), []).append(rank)
    problems: list[tuple[Status, str, str]] = []
    if len(counts) > 1:
        told = "; ".join(f"rank {ranks[0]} has {n} in {m} micro-batches" for (n, m), ranks in counts.items())
        problems.append(("fail", f"ranks have different numbers of steps: {told}", "report these settings: a defect"))
    problems += _ending(planned)
    (counted, micro_batches), ranks = next(iter(counts.items()))
    which = f"all {planned.ranks} ranks" if len(numbers) == planned.ranks else f"{len(ranks)} of {planned.ranks} ranks"
    what = "an epoch has no end; planned are" if _is_endless(planned) else "an epoch has"
    otherwise = f"{what} {counted:,} steps, of {micro_batches:,} micro-batches, on {which} alike"
    return worst("steps", problems, otherwise)


def _is_endless(planned: Planned) -> bool:
    return planned.batches.epoch_range(0)[1] >= ENDLESS


def _ending(planned: Planned) -> list[tuple[Status, str, str]]:
    """What is wrong where a source ends the run before the planned steps."""
    progress = planned.batches.progress(planned.steps)
    ended_by = planned.batches.plan.ended_by
    if not planned.steps_are_given or progress.steps >= planned.steps or ended_by is None:
        return []
    status: Status = "fail" if ended_by.at_end == "raise" else "warn"
    return [
        (
            status,
            f"{ended_by.label} ends the run before step {progress.steps:,} of {planned.steps:,}, as its at_end is "
            f"{ended_by.at_end} after {ended_by.max_epochs} epochs",
            "raise max_epochs, lower its weight, or set at_end to repeat",
        )
    ]
