"""The steps of a segment that reads one corpus, epoch by epoch."""

import numpy as np

from tokenyard.datasets.order.clock import Clock
from tokenyard.datasets.order.draws import Draws, Int64Array, find_units, lane_by_lane, place_units, step_by_step
from tokenyard.datasets.order.intervals import Intervals
from tokenyard.datasets.order.order import tail_positions, walk
from tokenyard.datasets.order.segment import ENDLESS, Left, Segment, Stream


class EpochCourse:
    """Which samples each step of a segment takes. Steps are counted from the segment's first.

    Attributes:
        clock: its epochs.
        limit: the steps it can go on for.
        limited_by: the source that sets the limit; None, as an epoch follows another for ever.
    """

    limit = ENDLESS
    limited_by = None

    def __init__(self, segment: Segment, left: Left) -> None:
        """Take the segment, and what was left when it began."""
        self._segment = segment
        self._source = segment.sources[0]
        stream = left.streams.get(self._source.number, Stream(next_epoch=left.epoch))
        self._first = stream.parts[0][1] if stream.parts else self._whole
        self.left = left
        self.clock = Clock(epoch=left.epoch, first=segment.steps_of(self._first.size), whole=segment.epoch_steps)

    @property
    def _whole(self) -> Intervals:
        return Intervals.whole(self._source.num_samples)

    def draws(self, step: int, count: int, slots: Int64Array) -> Draws:
        """Return what slots take at `count` steps of one epoch: arrays [count, *slots.shape].

        The tail of r positions, fewer than a global batch, is padded by going round: slot s takes the tail's position
        number s mod r, and is padding when s >= r. So padding is real text, and which samples it repeats depends
        neither on the rank nor on the world size.
        """
        segment = self._segment
        epoch, within, is_first = self.clock.locate(step)
        part = self._first if is_first else self._whole
        is_padding = None
        if within < part.size // segment.global_batch_size:
            # In each lane a step begins where the one before it ends.
            moved = np.arange(count).reshape(-1, *[1] * slots.ndim) * segment.lane_batch
            ranks = walk(part.size, segment.global_batch_size, segment.order.lanes, within, slots) + moved
        else:
            tail = tail_positions(part.size, segment.global_batch_size)
            ranks, is_padding = tail[slots % tail.size][None], (slots >= tail.size)[None]
        positions = lane_by_lane(part.values(ranks), segment.lane_batch)
        samples = step_by_step(
            place_units(segment.order, self._source.num_samples, segment.samples_per_unit, epoch, positions, None),
            ranks.shape,
            segment.lane_batch,
        )
        return Draws(sources=None, sample_ids=samples, epochs=np.full(samples.shape, epoch), is_padding=is_padding)

    def whole_batches(self, step: int) -> int:
        """Return how many steps from this one on, in its epoch, are full global batches."""
        _, within, is_first = self.clock.locate(step)
        part = self._first if is_first else self._whole
        return part.size // self._segment.global_batch_size - within

    def after(self, steps: int) -> Left:
        """Return what is left after so many steps."""
        epoch, within, is_first = self.clock.locate(steps)
        if is_first and not within:
            return self.left
        if not within:
            return Left(epoch=epoch)
        part = self._first if is_first else self._whole
        segment = self._segment
        lane_size = part.size // segment.global_batch_size * segment.lane_batch
        taken = within * segment.lane_batch
        rest = part.without(
            Intervals.of((at, at + taken) for at in range(0, lane_size * segment.order.lanes, lane_size))
        )
        return Left(
            epoch=epoch, size=rest.size, streams={self._source.number: Stream(((epoch, rest),), next_epoch=epoch + 1)}
        )

    def num_epochs(self, steps: int) -> dict[int, float]:
        """Return how many epochs of the corpus, by its number, are gone through after so many steps of the segment."""
        left = self.after(steps)
        stream = left.streams.get(self._source.number)
        rest = sum(part.size for _, part in stream.parts) if stream is not None else 0
        return {self._source.number: left.epoch + bool(rest) - rest / self._source.num_samples}

    def num_draws(self, steps: int) -> dict[int, int]:
        """Return how many samples, padding left out, so many steps of the segment take of the corpus, by its number."""
        epoch, within, is_first = self.clock.locate(steps)
        done = 0 if is_first else self._used(self._first) + (epoch - self.clock.epoch - 1) * self._used(self._whole)
        return {self._source.number: done + within * self._segment.global_batch_size}

    def _used(self, part: Intervals) -> int:
        """Return the samples that steps take of what there is of an epoch."""
        batch = self._segment.global_batch_size
        return part.size if self._segment.last_batch == "pad" else part.size // batch * batch

    def find(self, epoch: int, source: int, samples: Int64Array) -> list[list[tuple[int, int]]]:
        """Return of each sample (step, slot) of each time that it is taken in an epoch; padding repeats it."""
        del source
        segment = self._segment
        positions = find_units(segment.order, self._source.num_samples, segment.samples_per_unit, epoch, samples, None)
        part = self._first if epoch == self.clock.epoch else self._whole
        start = self.clock.start_of(epoch)
        return [self._places(part, start, part.rank(position)) for position in positions.tolist()]

    def _places(self, part: Intervals, start: int, rank: int | None) -> list[tuple[int, int]]:
        """Return (step, slot) of each time that a rank is taken of a part, whose first step is `start`."""
        segment = self._segment
        if rank is None:
            return []
        size, batch = part.size, segment.global_batch_size
        lane_size = size // batch * segment.lane_batch
        if rank < lane_size * segment.order.lanes:
            lane, in_lane = divmod(rank, lane_size)
            at, slot = divmod(in_lane, segment.lane_batch)
            return [(start + at, lane * segment.lane_batch + slot)]
        if segment.last_batch == "drop":
            return []
        return [(start + size // batch, slot) for slot in range(rank - size // batch * batch, batch, size % batch)]
