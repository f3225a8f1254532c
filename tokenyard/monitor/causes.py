"""What those who make batches spent their time on, by cause, in ms of a batch."""

from __future__ import annotations

from typing import Literal

from tokenyard.monitor.figures import Figures, Making
from tokenyard.stages import StageTime

#: storage: waiting for bytes. decode: the processor decodes. python: transforms, and Python's lock. copying: the
#: processor finds, copies and makes tensors. cores: ready to run, without a core.
Cause = Literal["storage", "decode", "python", "copying", "cores"]

#: A thread that wants Python's lock asks for it after 5 ms; so late on average, somebody holds it most of the time.
_LATE_MS = 2.5
#: Percent of utilisation from which on a disk is at work, and waits are its own.
_DISK_AT_WORK = 50
_NONE = StageTime(0, 0)


def causes(figures: Figures) -> dict[Cause, float]:
    """Share out the time of a batch. What a thread waited and did not queue for is storage's where it was reading."""
    making = figures.making
    stages = making.stages
    waited, queued, left = making.waited_ns, making.queued_ns or 0, _not_queued(making)
    reading = left * (waited.get("read", 0) + waited.get("decode", 0))
    other = left * (waited.get("transform", 0) + waited.get("tensors", 0))
    if is_interpreter_held(figures) and not is_disk_at_work(figures):
        reading, other = 0.0, other + reading
    found: dict[Cause, float] = {
        "storage": reading,
        "decode": stages.get("decode", _NONE).cpu,
        "python": other + stages.get("transform", _NONE).cpu,
        "copying": stages.get("read", _NONE).cpu + stages.get("tensors", _NONE).cpu,
        "cores": queued,
    }
    return {cause: ns / 1e6 / max(1, making.num_batches) for cause, ns in found.items()}


def main_cause(figures: Figures, found: dict[Cause, float]) -> Cause:
    """Return what to change: the largest cause. Cores count only where work is light enough if it never queues."""
    light = figures.making.wall_ms - found["cores"] <= figures.compute_ms_per_batch * max(1, figures.making.num_makers)
    return max((cause for cause in found if light or cause != "cores"), key=lambda cause: found[cause])


def transform_waits(figures: Figures) -> bool:
    """Whether what Python takes is mostly a transform that waits, with Python's lock released."""
    making = figures.making
    waited_ms = _not_queued(making) * making.waited_ns.get("transform", 0) / 1e6 / max(1, making.num_batches)
    return not is_interpreter_held(figures) and waited_ms > causes(figures)["python"] / 2


def computed_in_transform_ms(figures: Figures) -> float:
    """What a transform computes in a batch, in ms of a core."""
    making = figures.making
    return making.stages.get("transform", _NONE).cpu / 1e6 / max(1, making.num_batches)


def is_interpreter_held(figures: Figures) -> bool:
    """Whether threads wait for Python's lock, since some thread computes in Python; workers have locks of their own."""
    return figures.making.makers != "workers" and figures.system.interpreter_late_ms >= _LATE_MS


def is_disk_at_work(figures: Figures) -> bool:
    """Whether the corpus's disk was busy."""
    disk = figures.system.disk
    return disk is not None and disk.utilisation >= _DISK_AT_WORK


def _not_queued(making: Making) -> float:
    """The share of waiting that was not for a core."""
    # Where a thread was when it queued isn't known; it is taken to be where it waited.
    all_waited = sum(making.waited_ns.values())
    return max(0, all_waited - (making.queued_ns or 0)) / all_waited if all_waited else 0.0
