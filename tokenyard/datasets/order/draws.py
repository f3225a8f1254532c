"""What slots of some steps take: sources, samples, and the epochs they are taken in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.order.order import Order, find, place

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Arrays of one shape, an entry for each slot.

    Attributes:
        sources: int64, the number of the source; None where a corpus is all there is.
        sample_ids: int64, the sample in its source.
        epochs: int64, which epoch of its source it is taken in.
        is_padding: bool, whether it only fills the last global batch up; None where nothing does.
    """

    sources: Int64Array | None
    sample_ids: Int64Array
    epochs: Int64Array
    is_padding: NDArray[np.bool_] | None = None

    def taken(self, steps: slice, slots: Int64Array) -> "Draws":
        """Return some steps and slots of arrays [steps, slots]: arrays [steps, *slots.shape]."""
        return Draws(
            sources=None if self.sources is None else self.sources[steps, slots],
            sample_ids=self.sample_ids[steps, slots],
            epochs=self.epochs[steps, slots],
            is_padding=None if self.is_padding is None else self.is_padding[steps, slots],
        )


def lane_by_lane(array: Int64Array, lane_batch: int) -> Int64Array:
    """Return an array [steps, ...] flat, all steps of a lane before the next lane, if its slots fill whole lanes.

    Neighbouring slots that begin with a lane take ascending positions then, which are placed without being sorted.
    """
    steps, size = len(array), array[0].size
    width = size if size % lane_batch else lane_batch
    return array.reshape(steps, size // width, width).swapaxes(0, 1).reshape(-1)


def step_by_step(flat: Int64Array, shape: tuple[int, ...], lane_batch: int) -> Int64Array:
    """Return what `lane_by_lane` made flat, in its shape again."""
    steps, size = shape[0], flat.size // shape[0]
    width = size if size % lane_batch else lane_batch
    return flat.reshape(size // width, steps, width).swapaxes(0, 1).reshape(shape)


def place_units(
    order: Order, num_samples: int, samples_per_unit: int, epoch: int, positions: Int64Array, source: int | None
) -> Int64Array:
    """Return the sample at each position, where the order moves units of neighbouring samples."""
    return _by_units(place, order, num_samples, samples_per_unit, epoch, positions, source)


def find_units(
    order: Order, num_samples: int, samples_per_unit: int, epoch: int, samples: Int64Array, source: int | None
) -> Int64Array:
    """Return the position of each sample: the inverse of `place_units`."""
    return _by_units(find, order, num_samples, samples_per_unit, epoch, samples, source)


def _by_units(
    moved: Callable[[Order, int, int, Int64Array, int | None], Int64Array],
    order: Order,
    num_samples: int,
    samples_per_unit: int,
    epoch: int,
    numbers: Int64Array,
    source: int | None,
) -> Int64Array:
    if samples_per_unit == 1:
        return moved(order, num_samples, epoch, numbers, source)
    units, within = np.divmod(numbers, samples_per_unit)
    found = moved(order, num_samples // samples_per_unit, epoch, units, source)
    found *= samples_per_unit
    found += within
    return found
