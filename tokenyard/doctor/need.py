"""What a job asks of its loaders."""

from __future__ import annotations

from dataclasses import dataclass

from tokenyard.doctor.passing import Passed

#: What a setting gives beyond the need before it is called enough for one rank alone.
HEADROOM = 1.25
#: A step that waits for less than this share of it doesn't wait; as `tokenyard.Monitor` has it.
WAIT_SHARE = 0.10


@dataclass(frozen=True, kw_only=True)
class Need:
    """What ranks take.

    Attributes:
        gpus: ranks on the node.
        world_size: ranks of the job.
        step_seconds: what a step computes; None where nobody said.
        micro_batches: that a rank takes in a step, on average.
        samples: that a rank takes in a step, on average; padding included.
        tokens: likewise.
    """

    gpus: int
    world_size: int
    step_seconds: float | None
    micro_batches: float
    samples: float
    tokens: float

    @property
    def steps_per_second(self) -> float | None:
        """Steps that never wait."""
        return None if self.step_seconds is None else 1 / self.step_seconds


def need_of(passed: Passed, *, gpus: int, world_size: int, step_seconds: float | None) -> Need:
    """Return the need of a job, whose steps are told by some that were gone through."""
    steps = max(1e-9, passed.steps)
    return Need(
        gpus=gpus,
        world_size=world_size,
        step_seconds=step_seconds,
        micro_batches=passed.batches / steps,
        samples=passed.samples / steps,
        tokens=passed.tokens / steps,
    )
