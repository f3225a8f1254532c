"""How far a long command is, on standard error: a live line on a terminal, now and then a plain line in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column

from tokenyard.cli.output import errors

if TYPE_CHECKING:
    from tokenyard.bench.steps import OnStep, Step
    from tokenyard.converters.job import OnProgress, Progress

#: Seconds before the first line of a log, and how many times longer it takes to each one after it.
_FIRST_S, _GROWTH = 5.0, 2.0
_LINES_AT_LEAST = 10

#: Shows the part that is done (0 to 1), the seconds it took, and what to say of it.
_Show = Callable[[float, float, str], None]


class LogLines:
    """Says when a log gets another line: after 5, 10, 20 ... seconds, and after that at every further tenth too."""

    def __init__(self) -> None:
        self._next_s = _FIRST_S
        self._tenth = 0

    def is_due(self, share: float, seconds: float) -> bool:
        """Return whether to say now that a share (0 to 1) is done after so many seconds."""
        tenth = int(share * _LINES_AT_LEAST)
        if seconds < _FIRST_S or (seconds < self._next_s and tenth <= self._tenth):
            return False
        self._tenth = tenth
        while self._next_s <= seconds:
            self._next_s *= _GROWTH
        return True


@contextmanager
def progress(title: str) -> Iterator[OnProgress]:
    """The progress of a job that makes or checks a corpus: what is done of what, the rate, and the time left."""
    with _shown(title) as show:

        def tell(done: Progress) -> None:
            show(done.share, done.seconds, told_progress(done))

        yield tell


@contextmanager
def steps(title: str) -> Iterator[OnStep]:
    """The progress of a benchmark: what is measured now, and the time left."""
    with _shown(title) as show:

        def tell(step: Step) -> None:
            # The first step of a log says how long all will take.
            show(step.done / step.steps, step.seconds if step.done else _FIRST_S, told_step(step))

        yield tell


def told_progress(done: Progress) -> str:
    """Return amounts, rate and time left in words."""
    tokens = f"{done.tokens:,} of {done.total:,} tokens" if done.unit == "tokens" else f"{done.tokens:,} tokens"
    parts = [tokens, f"{done.rows:,} rows"]
    if done.unit == "bytes":
        parts.insert(0, f"{done.bytes / 1e6:,.0f} of {done.total / 1e6:,.0f} MB of input")
    if done.seconds:
        parts.append(f"{done.tokens_per_second / 1e6:,.2f} Mtok/s")
    if done.share < 1 and done.seconds_left is not None:
        parts.append(f"about {told_seconds(done.seconds_left)} left")
    return f"{done.share:4.0%}, {', '.join(parts)}"


def told_step(step: Step) -> str:
    """Return what comes next, its number, and the time left in words."""
    return f"{step.done + 1} of {step.steps}, {step.what}, about {told_seconds(step.seconds_left)} left"


def told_seconds(seconds: float) -> str:
    """Return a time in words, in two units at most: ``8 s``, ``1 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def _shown(title: str) -> Iterator[_Show]:
    if sys.stderr.isatty() and not errors.is_dumb_terminal:
        told = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        with Bar(BarColumn(20), told, console=errors, transient=True) as bar:
            task = bar.add_task(title, total=1.0)
            yield lambda share, seconds, text: bar.update(task, completed=share, description=f"{title}: {text}")
        return
    lines = LogLines()

    def show(share: float, seconds: float, text: str) -> None:
        if lines.is_due(share, seconds):
            errors.print(f"{title}: {text}", markup=False, highlight=False, soft_wrap=True)

    yield show
