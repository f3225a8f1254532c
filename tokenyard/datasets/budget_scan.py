"""Where the steps of an epoch begin, when a budget of tokens decides it: found by going through the lengths of rows."""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.order.budget import Budget, full_batches
from tokenyard.errors import ConfigError

#: Gives the tokens of the rows that the draws from one to before another take.
DrawLengths = Callable[[int, int], NDArray[np.int64]]

#: Draws that are gone through at a time: few at first, since mostly the next step is asked for.
_FIRST, _MOST = 1 << 10, 1 << 17


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A step of the run whose place in the order is known.

    Attributes:
        step: the step.
        position: its first draw.
        epoch: the epoch in which it lies.
        epoch_step: the first step of that epoch.
        epoch_position: the first draw of that one.
    """

    step: int
    position: int
    epoch: int
    epoch_step: int
    epoch_position: int

    @classmethod
    def first(cls) -> "Mark":
        """Return the first step of a run."""
        return cls(step=0, position=0, epoch=0, epoch_step=0, epoch_position=0)

    @property
    def of_epoch(self) -> "Mark":
        """The mark of the epoch's first step."""
        return Mark(
            step=self.epoch_step,
            position=self.epoch_position,
            epoch=self.epoch,
            epoch_step=self.epoch_step,
            epoch_position=self.epoch_position,
        )


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Where an epoch ends.

    Attributes:
        stop: the first draw after it.
        limit: the draw before which its steps end: `stop`, or of a mixture, whose steps go on, where the run ends.
        pads: whether a step is filled up that doesn't find all of its micro-batches before `limit`.
        is_mixture: whether it is one.
    """

    stop: int
    limit: int
    pads: bool
    is_mixture: bool


class EpochScan:
    """The steps of an epoch from a mark on, as far as somebody asked.

    Attributes:
        mark: where it begins.
        starts: int64, the first draw of each step that is known, and the end of the last one.
        done: whether all steps of the epoch are known.
    """

    def __init__(self, mark: Mark, bounds: Bounds, budget: Budget, lengths: DrawLengths) -> None:
        self.mark = mark
        self.starts = array("q", [mark.position])
        self._bounds, self._budget, self._lengths = bounds, budget, lengths
        self._ahead = _FIRST
        self.done = False

    @property
    def stop_step(self) -> int:
        """The first step past those that are known."""
        return self.mark.step + len(self.starts) - 1

    @property
    def ends_run(self) -> bool:
        """Whether the run is known to end in this epoch, after its last step."""
        bounds = self._bounds
        return self.done and bounds.is_mixture and (self.starts[-1] < bounds.stop or self.starts[0] >= bounds.limit)

    def reaches(self, step: int) -> bool:
        """Return whether a step from the mark on lies in the epoch, going through as much of it as that takes.

        Raises:
            ConfigError: no step lies in it.
        """
        while not self.done and step >= self.stop_step:
            self._go_on()
        return step < self.stop_step

    def passes(self, draw: int) -> bool:
        """Return whether steps take a draw from the mark on. Goes through as much, and raises, as `reaches`."""
        while not self.done and draw >= self.starts[-1]:
            self._go_on()
        return draw < self.starts[-1]

    def finish(self) -> int:
        """Go through all of the epoch, and return the first step after it. Raises ConfigError as `reaches` does."""
        while not self.done:
            self._go_on()
        return self.stop_step

    def at(self, step: int) -> Mark:
        """Return the mark of a known step, or of the one after the last."""
        mark = self.mark
        return Mark(
            step=step,
            position=self.starts[step - mark.step],
            epoch=mark.epoch,
            epoch_step=mark.epoch_step,
            epoch_position=mark.epoch_position,
        )

    def _go_on(self) -> None:
        """Find some steps more, or that there are none."""
        bounds, size = self._bounds, self._budget.micro_batches
        start = self.starts[-1]
        stop = min(start + self._ahead, bounds.limit)
        ends = full_batches(self._lengths(start, stop).tolist(), self._budget.tokens)
        if start < stop == bounds.limit:
            ends.append(stop - start)
        found = [start + end for end in ends[size - 1 :: size]]
        if stop == bounds.limit:
            if bounds.pads and len(ends) % size:
                found.append(stop)
            if not found and self.stop_step == self.mark.epoch_step and not bounds.is_mixture:
                raise ConfigError(
                    f"token_budget: the {stop - start} samples of epoch {self.mark.epoch} fill {len(ends)} of the "
                    f"{size} micro-batches of a step, with up to {self._budget.tokens} tokens in each, so it would "
                    "have no step; lower tokens or micro_batches, or choose last_batch pad"
                )
            self.done = True
        self.starts.extend(found)
        # A step that begins in the next epoch belongs to it.
        past = bisect_left(self.starts, bounds.stop)
        if bounds.limit > bounds.stop and past < len(self.starts):
            del self.starts[past + 1 :]
            self.done = True
        self._ahead = 2 * self._ahead if not found else min(2 * self._ahead, _MOST)
