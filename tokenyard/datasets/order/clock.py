"""The epochs of a segment, counted in steps: what is left of the one it begins in, then whole ones."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Steps are counted from the beginning of the segment.

    Attributes:
        epoch: the epoch in which the segment begins.
        first: steps that are left of it.
        whole: steps of each epoch after it, at least one.
    """

    epoch: int
    first: int
    whole: int

    def locate(self, step: int) -> tuple[int, int, bool]:
        """Return the epoch of a step, its number in what the segment has of that epoch, and if that is the first."""
        if step < self.first:
            return self.epoch, step, True
        epochs, within = divmod(step - self.first, self.whole)
        return self.epoch + 1 + epochs, within, False

    def start_of(self, epoch: int) -> int:
        """Return the first step of an epoch, which is `epoch` or a later one."""
        return 0 if epoch == self.epoch else self.first + (epoch - self.epoch - 1) * self.whole
