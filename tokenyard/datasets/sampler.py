"""The samples of each micro-batch of a rank: the order and the partition, walked epoch by epoch. Needs no torch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.order import Order, place
from tokenyard.datasets.partition import LastBatch, Partition, StepPositions, num_steps, step_positions
from tokenyard.errors import ConfigError

#: Samples of a rank that are placed at a time.
_SAMPLES_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Which samples one forward pass takes.

    Attributes:
        sample_ids: int64[micro_batch_size].
        is_padding: bool of the same shape: the slot repeats a sample, to fill the last global batch.
    """

    sample_ids: NDArray[np.int64]
    is_padding: NDArray[np.bool_]


class RankSampler:
    """The micro-batches of one rank, as a batch sampler of torch's `DataLoader`.

    All ranks have equally many, and between them each sample of an epoch comes once (`drop` leaves out those that fill
    no global batch, `pad` repeats some of them to fill it). Each `iter()` takes the next epoch, from 0 on; `set_epoch`
    says which one comes next.

    Args:
        num_samples: samples of the dataset.
        order: the resolved order, the same on all ranks.
        partition: the rank and the sizes of its batches.
        last_batch: what becomes of samples that fill no global batch, `drop` or `pad`.

    Raises:
        ConfigError: there is no step in an epoch.
    """

    def __init__(self, num_samples: int, order: Order, partition: Partition, last_batch: LastBatch = "drop") -> None:
        self.num_samples = num_samples
        self.order = order
        self.partition = partition
        self.last_batch = last_batch
        self.num_steps = num_steps(num_samples, partition.global_batch_size, last_batch)
        if not self.num_steps:
            raise ConfigError(
                f"global_batch_size: there are {num_samples} samples, which fill no global batch of "
                f"{partition.global_batch_size}, so an epoch would have no step; lower global_batch_size or seq_len"
                + (", or choose last_batch pad" if num_samples else "")
            )
        self._next_epoch = 0
        self._steps_at_once = max(1, _SAMPLES_AT_ONCE // partition.rank_batch_size)
        self._latest: tuple[int, int, list[MicroBatch]] | None = None

    def __len__(self) -> int:
        """Return the micro-batches of an epoch, the same on all ranks."""
        return self.num_steps * self.partition.num_micro_batches

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter()` begin this epoch."""
        if type(epoch) is not int or epoch < 0:
            raise ConfigError(f"epoch: expected a whole number from 0 on, found {epoch!r}")
        self._next_epoch = epoch

    def take_epoch(self) -> int:
        """Return the epoch whose turn it is; the next call gets the one after it."""
        epoch = self._next_epoch
        self._next_epoch += 1
        return epoch

    def __iter__(self) -> Iterator[list[int]]:
        """Begin the next epoch: the sample ids of each micro-batch."""
        epoch = self.take_epoch()
        return (self.micro_batch(epoch, index).sample_ids.tolist() for index in range(len(self)))

    def micro_batch(self, epoch: int, index: int) -> MicroBatch:
        """Return a micro-batch by its number in an epoch; a pure function, quick where steps are asked for in turn."""
        chunk, within = divmod(index, self._steps_at_once * self.partition.num_micro_batches)
        latest = self._latest
        if latest is None or latest[:2] != (epoch, chunk):
            latest = self._latest = (epoch, chunk, self._steps(epoch, chunk * self._steps_at_once))
        return latest[2][within]

    def _steps(self, epoch: int, first: int) -> list[MicroBatch]:
        """Return the micro-batches of some steps, since placing many samples costs little more than placing few."""
        num_whole = self.num_samples // self.partition.global_batch_size
        whole = min(first + self._steps_at_once, num_whole) - first
        found: list[MicroBatch] = []
        if whole > 0:
            taken = self._positions(first)
            # In each lane a step begins where the one before it ends.
            moved = np.arange(whole) * (self.partition.global_batch_size // self.order.lanes)
            positions = taken.positions + moved[:, None, None]
            found = self._micro_batches(epoch, positions.reshape(-1, self.partition.micro_batch_size), None)
        if whole < self._steps_at_once and self.num_steps > num_whole:
            taken = self._positions(num_whole)
            found += self._micro_batches(epoch, taken.positions, taken.is_padding)
        return found

    def _positions(self, step: int) -> StepPositions:
        return step_positions(
            self.partition,
            num_samples=self.num_samples,
            lanes=self.order.lanes,
            last_batch=self.last_batch,
            step=step,
        )

    def _micro_batches(
        self, epoch: int, positions: NDArray[np.int64], is_padding: NDArray[np.bool_] | None
    ) -> list[MicroBatch]:
        ids = place(self.order, self.num_samples, epoch, positions)
        padding = np.zeros(ids.shape, np.bool_) if is_padding is None else is_padding
        return [MicroBatch(sample_ids=i, is_padding=p) for i, p in zip(ids, padding, strict=True)]
