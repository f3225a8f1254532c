"""How the global batch of a step is divided: over ranks, and over the micro-batches of a rank.

Ranks take contiguous slots of the global batch, all equally many, at equally many steps. Nothing here reads which
process it runs in: rank and world size are handed in.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.checks import check_choice, check_int
from tokenyard.datasets.order import tail_positions, walk
from tokenyard.errors import ConfigError

LastBatch = Literal["drop", "pad"]


@dataclass(frozen=True, kw_only=True)
class Partition:
    """What one data-parallel rank takes of every global batch.

    Attributes:
        rank: this rank, below `world_size`.
        world_size: data-parallel ranks.
        global_batch_size: samples of one optimizer step over all ranks; a multiple of `world_size`.
        micro_batch_size: samples of one forward pass on one rank; divides `rank_batch_size`.

    Raises:
        ConfigError: a size is out of its range, or one doesn't divide another; the message names sizes that do.
    """

    rank: int
    world_size: int
    global_batch_size: int
    micro_batch_size: int

    def __post_init__(self) -> None:
        """Refuse sizes that don't divide."""
        check_int("world_size", self.world_size, at_least=1)
        check_int("rank", self.rank, at_least=0, below=self.world_size)
        check_int("global_batch_size", self.global_batch_size, at_least=1)
        check_int("micro_batch_size", self.micro_batch_size, at_least=1)
        if self.global_batch_size % self.world_size:
            near = _multiples_near(self.global_batch_size, self.world_size)
            raise ConfigError(
                f"global_batch_size: expected a multiple of world_size {self.world_size}, "
                f"found {self.global_batch_size}; the nearest: {near}"
            )
        if self.rank_batch_size % self.micro_batch_size:
            near = _divisors_near(self.micro_batch_size, self.rank_batch_size)
            raise ConfigError(
                f"micro_batch_size: expected a divisor of the {self.rank_batch_size} samples of a rank "
                f"(global_batch_size {self.global_batch_size} / world_size {self.world_size}), "
                f"found {self.micro_batch_size}; the nearest: {near}"
            )

    @property
    def rank_batch_size(self) -> int:
        """Samples of one step on one rank."""
        return self.global_batch_size // self.world_size

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches of one step on one rank: the steps of gradient accumulation."""
        return self.rank_batch_size // self.micro_batch_size

    @property
    def slots(self) -> NDArray[np.int64]:
        """Slots of the global batch taken at every step, int64[num_micro_batches, micro_batch_size], contiguous."""
        first = self.rank * self.rank_batch_size
        return np.arange(first, first + self.rank_batch_size).reshape(self.num_micro_batches, self.micro_batch_size)


@dataclass(frozen=True, kw_only=True)
class StepPositions:
    """The positions that a rank takes at a step, a row for each micro-batch.

    Attributes:
        positions: int64[num_micro_batches, micro_batch_size].
        is_padding: bool of the same shape: the slot repeats a sample that stands elsewhere in the same global batch.
            Counting only the others counts each sample once.
    """

    positions: NDArray[np.int64]
    is_padding: NDArray[np.bool_]


def num_steps(num_samples: int, global_batch_size: int, last_batch: LastBatch) -> int:
    """Return the steps of an epoch, the same on all ranks: whole global batches, and one for the tail if it is padded.

    Fewer samples than a global batch are no step with `drop`, and one step with `pad`.

    Raises:
        ConfigError: a size is out of its range, or `last_batch` is unknown.
    """
    check_int("num_samples", num_samples, at_least=0)
    check_int("global_batch_size", global_batch_size, at_least=1)
    check_choice("last_batch", last_batch, get_args(LastBatch))
    if last_batch == "pad":
        return -(-num_samples // global_batch_size)
    return num_samples // global_batch_size


def step_positions(
    partition: Partition, *, num_samples: int, lanes: int, last_batch: LastBatch, step: int
) -> StepPositions:
    """Return the positions that the rank takes at a step of an epoch.

    The tail of r positions, fewer than a global batch, is padded by going round: slot s takes the tail's position
    number s mod r, and is padding when s >= r. So every rank runs the step, padding is real text, and which samples it
    repeats depends neither on the rank nor on the world size. Ranks late in the order may hold padding alone.

    Args:
        partition: the rank and its sizes.
        num_samples: samples in the epoch.
        lanes: lanes of the walk, a divisor of the global batch.
        last_batch: what becomes of the tail.
        step: below `num_steps`.

    Raises:
        ConfigError: a number is out of its range.
    """
    size = partition.global_batch_size
    steps = num_steps(num_samples, size, last_batch)
    check_int("step", step, at_least=0)
    if step >= steps:
        raise ConfigError(
            f"step: expected less than the {steps} steps of {num_samples} samples in global batches of {size} with "
            f"last_batch {last_batch!r}, found {step}; begin the next epoch"
        )
    slots = partition.slots
    if step < num_samples // size:
        positions = walk(num_samples, size, lanes, step, slots)
        return StepPositions(positions=positions, is_padding=np.zeros(slots.shape, np.bool_))
    tail = tail_positions(num_samples, size)
    return StepPositions(positions=tail[slots % tail.size], is_padding=slots >= tail.size)


def _multiples_near(size: int, unit: int) -> str:
    below = size - size % unit
    return f"{below} and {below + unit}" if below else str(unit)


def _divisors_near(size: int, number: int) -> str:
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    divisors = sorted({*small, *(number // d for d in small)})
    below = [d for d in divisors if d < size][-1:]
    above = [d for d in divisors if d > size][:1]
    return " and ".join(map(str, below + above))
