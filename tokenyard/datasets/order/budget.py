"""Batches by a budget of tokens, greedily over the order (`order/1`).

With a budget of T tokens and M micro-batches:

- The *draws* of a run are the order with global batches of one sample and one lane: draw d is what its step d takes.
- A micro-batch takes the next draws while its rows times the tokens of its longest row (at least one) are at most T.
- A step takes the next M micro-batches, from the first draw that is unused.
- An epoch of one corpus begins with its first draw. A step at its end that would have k < M micro-batches is dropped,
  or padded: micro-batch j >= k repeats micro-batch j mod k.
- The steps of a mixture go on from epoch to epoch, and belong to the epoch of their first draw.

So where a step begins depends on the lengths of all rows before it in its epoch, and a state keeps it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenyard.datasets.order.partition import multiples_near
from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import check_int


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How large batches are.

    Attributes:
        tokens: the most that a micro-batch has, padding included.
        micro_batches: micro-batches of a step over all ranks.

    Raises:
        ConfigError: one is out of its range.
    """

    tokens: int
    micro_batches: int

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        check_int("token_budget.tokens", self.tokens, at_least=1)
        check_int("token_budget.micro_batches", self.micro_batches, at_least=1)

    def of_rank(self, rank: int, world_size: int) -> range:
        """Return the micro-batches of a step that a rank takes. Raises ConfigError where ranks can't share them."""
        check_int("world_size", world_size, at_least=1)
        check_int("rank", rank, at_least=0, below=world_size)
        if self.micro_batches % world_size:
            raise ConfigError(
                f"token_budget.micro_batches: expected a multiple of world_size {world_size}, found "
                f"{self.micro_batches}; the nearest: {multiples_near(self.micro_batches, world_size)}"
            )
        own = self.micro_batches // world_size
        return range(rank * own, rank * own + own)


def full_batches(lengths: Sequence[int], tokens: int) -> list[int]:
    """Return where each micro-batch ends that is full, since the row after it doesn't fit: numbers of rows.

    Args:
        lengths: the tokens of rows, one after another; none above `tokens`.
        tokens: the budget.
    """
    ends = []
    first, longest = 0, 1
    for row, length in enumerate(lengths):
        if length > longest:
            longest = length
        if (row + 1 - first) * longest > tokens:
            ends.append(row)
            first, longest = row, length or 1
    return ends
