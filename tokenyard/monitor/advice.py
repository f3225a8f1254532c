"""How many threads or worker processes would do, and what that should bring."""

from __future__ import annotations

import math
from typing import Literal

from tokenyard.monitor.causes import computed_in_transform_ms
from tokenyard.monitor.figures import Figures

#: What is asked for beyond the least that would do.
_SPARE = 1.2
#: Share of the wait that a change takes away at least; what promises less may come of how the figures err.
_LEAST_SAVED = 0.2
#: Requests that a storage takes at once; threads that only wait cost no core.
_MAX_WAITING = 64


def with_makers(figures: Figures, *, waits: bool, only: Literal["threads", "workers"] | None = None) -> str:
    """Say how many threads or workers to set, and what that brings; nothing where more of them can't help.

    Args:
        figures: of the window.
        waits: whether they mostly wait, and so need no core each.
        only: which of them help: worker processes where threads would share Python's lock, threads where all they do
            is wait, for which a process is too much. Those that make batches now, when not given.
    """
    making, system = figures.making, figures.system
    if not making.more_may_help:
        return ""
    are_workers = making.makers == "workers"
    to_workers = are_workers if only is None else only == "workers"
    now = 0 if to_workers and not are_workers else making.num_makers
    # Where the loop takes batches as fast as it can, no number would do.
    per_batch = max(figures.compute_ms_per_batch, making.wall_ms / 1e3)
    if waits and not to_workers:  # what threads compute in Python between waits, they compute one after another
        per_batch = max(per_batch, computed_in_transform_ms(figures))
    needed = max(now + 1, math.ceil(_SPARE * making.wall_ms / per_batch))
    idle = system.cores if system.idle_cores is None else system.idle_cores
    # Threads that workers take the place of leave their cores to them.
    room = _MAX_WAITING if waits else max(1, making.num_makers + round(idle))
    if to_workers and not waits:
        room = min(room, system.cores)
    count = min(needed, room, _MAX_WAITING)
    if count <= now:
        return ""
    batch_ms = max(per_batch, making.wall_ms / count)
    step_ms = max(1e-9, batch_ms * figures.batches_per_step, figures.compute_ms)
    before_ms = figures.wait_ms + figures.compute_ms
    gain = before_ms / step_ms
    if gain < 1.05 or before_ms - step_ms < _LEAST_SAVED * figures.wait_ms:
        return ""
    change = f"loader.{'num_workers' if to_workers else 'num_threads'} {now} -> {count}"
    if are_workers and not to_workers:
        change = f"loader.num_workers {now} -> 0, and loader.num_threads: {count} in their place"
    if to_workers and count > system.cores:
        change += f" (more than the {system.cores} cores here, of which torch warns; they mostly wait)"
    share = 1 - figures.compute_ms / step_ms
    return (
        f"{change}: waiting for data falls from {figures.wait_share:.0%} to about {share:.0%} of a step, {gain:.1f} "
        "times the steps"
    )


def without_wait(figures: Figures) -> str:
    """Say what steps would gain that don't wait."""
    gain = (figures.wait_ms + figures.compute_ms) / max(1e-9, figures.compute_ms)
    return (
        f"without the wait there would be {gain:.1f} times the steps" if gain < 100 else "the steps do nothing but wait"
    )
