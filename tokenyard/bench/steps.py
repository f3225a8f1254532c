"""How far a run of the benchmark is, and how long the rest of it is likely to take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tokenyard.bench.settings import BenchSettings

#: What a measurement takes beside its rates: to start a process, to import, and to write or to open. From runs with two
#: cores and the default sample; right to a factor of two or so, and corrected by what the first steps really took.
_START_S = 1.5
#: Rates of `seconds` each that an average step measures, half of the steps being writes that measure none.
_WARM_RATES, _COLD_RATES = 2.5, 1.0


@dataclass(frozen=True, kw_only=True)
class Step:
    """A measurement that begins: ``done`` of all ``steps`` came before it.

    ``what`` it is, the ``seconds`` since the first began, and about how many are left.
    """

    done: int
    steps: int
    what: str
    seconds: float
    seconds_left: float


OnStep = Callable[[Step], None]


class Steps:
    """Counts steps, and tells of each before it begins."""

    def __init__(self, settings: BenchSettings, number: int, on_step: OnStep | None) -> None:
        self._number = number
        self._on_step = on_step
        self._guess_s = guessed_seconds(settings)
        self._done = 0
        self._begun = time.monotonic()

    def tell(self, what: str) -> None:
        """A step begins."""
        seconds = time.monotonic() - self._begun if self._done else 0.0
        if not self._done:
            self._begun = time.monotonic()
        left = seconds_left(self._done, self._number, seconds, self._guess_s)
        if self._on_step is not None:
            self._on_step(Step(done=self._done, steps=self._number, what=what, seconds=seconds, seconds_left=left))
        self._done += 1


def guessed_seconds(settings: BenchSettings) -> float:
    """Return about what a step takes, as long as none was seen."""
    rates = _WARM_RATES + (_COLD_RATES if settings.cold else 0.0)
    return _START_S + rates * settings.seconds


def seconds_left(done: int, steps: int, seconds: float, guess_s: float) -> float:
    """Return about what is left of some steps: the guess counts as one step more that was seen."""
    return (steps - done) * (seconds + guess_s) / (done + 1)
