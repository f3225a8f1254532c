"""What steps would wait at some step time, told from how batches came when nobody made them wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def replayed_waits(batch_seconds: Sequence[float], *, per_step: int, step_seconds: float, ahead: int) -> list[float]:
    """Return the seconds that each step would wait for its micro-batches.

    Batches are made one after another, in the time that each took; what is made waits to be taken, up to a number of
    batches. That is how threads and workers go on which are always behind; those that rest now and then may be quicker.

    Args:
        batch_seconds: from each batch to the next one, as fast as they came.
        per_step: micro-batches of a step.
        step_seconds: what a step computes, in equal parts after each micro-batch.
        ahead: batches that may be there before they are asked for; 0 where each is made when it is asked for.
    """
    pause = step_seconds / per_step
    taken: deque[float] = deque(maxlen=max(1, ahead))
    waits: list[float] = []
    made = asked = waited = 0.0
    for number, seconds in enumerate(batch_seconds):
        # There is room for a batch once the one was taken that is so many before it.
        begun = asked if not ahead else taken[0] if len(taken) == ahead else 0.0
        made = max(made, begun) + seconds
        waited += max(0.0, made - asked)
        at = max(made, asked)
        taken.append(at)
        asked = at + pause
        if (number + 1) % per_step == 0:
            waits.append(waited)
            waited = 0.0
    return waits
