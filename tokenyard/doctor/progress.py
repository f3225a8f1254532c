"""How far an examination is, told before each trial."""

from __future__ import annotations

import time

from tokenyard.bench.steps import OnStep, Step

#: Trials of an examination, about: nobody knows beforehand which settings are worth one.
_TRIALS = 14


class Progress:
    """Counts trials. `seconds`: what all of them take, about."""

    def __init__(self, seconds: float, on_step: OnStep | None) -> None:
        self._seconds = seconds
        self._on_step = on_step
        self._done = 0
        self._begun = time.monotonic()

    def tell(self, what: str) -> None:
        """A trial begins."""
        seconds = time.monotonic() - self._begun
        if self._on_step is not None:
            steps = max(_TRIALS, self._done + 1)
            left = max(0.0, self._seconds - seconds)
            self._on_step(Step(done=self._done, steps=steps, what=what, seconds=seconds, seconds_left=left))
        self._done += 1
