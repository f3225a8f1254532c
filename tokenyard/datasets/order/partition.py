"""How the global batch of a step is divided: over ranks, and over the micro-batches of a rank.

Ranks take contiguous slots of the global batch, all equally many, at equally many steps. Nothing here reads which
process it runs in: rank and world size are handed in.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import check_choice, check_int

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
            near = multiples_near(self.global_batch_size, self.world_size)
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


def multiples_near(size: int, unit: int) -> str:
    """Return, for a message, the multiples of `unit` next to `size`."""
    below = size - size % unit
    return f"{below} and {below + unit}" if below else str(unit)


def _divisors_near(size: int, number: int) -> str:
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    divisors = sorted({*small, *(number // d for d in small)})
    below = [d for d in divisors if d < size][-1:]
    above = [d for d in divisors if d > size][:1]
    return " and ".join(map(str, below + above))
