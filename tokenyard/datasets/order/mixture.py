"""The steps of a segment that draws from several sources by a schedule, each with epochs of its own."""

import numpy as np

from tokenyard.datasets.order.clock import Clock
from tokenyard.datasets.order.draws import Draws, Int64Array, find_units, lane_by_lane, place_units, step_by_step
from tokenyard.datasets.order.intervals import Intervals
from tokenyard.datasets.order.schedule import PERIOD, quotas, schedule
from tokenyard.datasets.order.segment import ENDLESS, Left, Segment, Source, Stream


class _Supply:
    """What one source gives to each lane: a stretch of every unfinished epoch, then of every whole one."""

    def __init__(self, source: Source, stream: Stream, lanes: int) -> None:
        self.source = source
        self.stream = stream
        self.lanes = lanes
        self.parts = [(epoch, part, part.size // lanes) for epoch, part in stream.parts]
        self.whole = Intervals.whole(source.num_samples)
        self.lane_size = source.num_samples // lanes
        self.in_parts = sum(size for _, _, size in self.parts)

    @property
    def allowed(self) -> int:
        """Draws that a lane may take of it."""
        last = self.source.max_epochs
        some = sum(size for epoch, _, size in self.parts if epoch < last)
        return some + max(0, last - self.stream.next_epoch) * self.lane_size

    def positions(self, lanes: Int64Array, nth: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the epoch and the position of a lane's nth draws."""
        later = nth - self.in_parts
        epochs = later // self.lane_size
        positions = (lanes - epochs) * self.lane_size + later
        epochs += self.stream.next_epoch
        start = 0
        for epoch, part, size in self.parts:
            here = np.flatnonzero((nth >= start) & (nth < start + size))
            epochs[here] = epoch
            positions[here] = part.values(lanes[here] * size + nth[here] - start)
            start += size
        return epochs, positions

    def find(self, epoch: int, position: int) -> tuple[int, int] | None:
        """Return the lane that takes a position of an epoch, and the number of the draw there."""
        start = 0
        for e, part, size in self.parts:
            if e == epoch:
                rank = part.rank(position)
                return None if rank is None else self._in_lane(rank, size, start)
            start += size
        if epoch < self.stream.next_epoch:
            return None
        start += (epoch - self.stream.next_epoch) * self.lane_size
        return self._in_lane(position, self.lane_size, start)

    def _in_lane(self, rank: int, size: int, start: int) -> tuple[int, int] | None:
        """Return the lane whose stretch of `size` a rank is in; None past the last, where fewer than lanes are left."""
        if rank >= size * self.lanes:
            return None
        lane, within = divmod(rank, size)
        return lane, start + within

    def after(self, counts: Int64Array) -> Stream:
        """Return what is left when lane l has taken `counts[l]` draws."""
        left = []
        start = 0
        for epoch, part, size in self.parts:
            taken = np.clip(counts - start, 0, size)
            if (taken < size).any():
                left.append((epoch, _without(part, size, taken)))
            start += size
        later = np.maximum(counts - self.in_parts, 0)
        first, last = int(later.min()) // self.lane_size, -(-int(later.max()) // self.lane_size)
        for number in range(first, last):
            taken = np.clip(later - number * self.lane_size, 0, self.lane_size)
            left.append((self.stream.next_epoch + number, _without(self.whole, self.lane_size, taken)))
        return Stream(tuple(left), next_epoch=self.stream.next_epoch + max(first, last))


class MixtureCourse:
    """Which samples each step of a mixture takes. Steps are counted from the segment's first.

    Lane l walks the schedule on its own, from draw `l * PERIOD // lanes` on; so a lane needs no history of the others,
    and a source's epochs are cut into lanes as those of a single corpus are.

    Attributes:
        clock: the epochs of the mixture, each of `epoch_samples` draws.
        limit: the steps it can go on for.
        limited_by: the source that sets the limit.
    """

    def __init__(self, segment: Segment, left: Left) -> None:
        """Take the segment, and what was left when it began."""
        self._segment = segment
        self.left = left
        size = segment.epoch_samples if left.size is None else left.size
        self.clock = Clock(epoch=left.epoch, first=segment.steps_of(size), whole=segment.epoch_steps)
        self._first_size = size
        lanes = segment.order.lanes
        self._schedule = schedule(quotas([source.weight for source in segment.sources]))
        self._lane_starts = np.arange(lanes) * PERIOD // lanes
        self._supplies = [_Supply(s, left.streams.get(s.number, Stream()), lanes) for s in segment.sources]
        self._bases = np.array(
            [self._schedule.counts_before(k, self._lane_starts) for k in range(len(segment.sources))]
        )
        self._quotas = np.array(self._schedule.quotas)
        self._numbers = np.array([source.number for source in segment.sources])
        self.limit, self.limited_by = self._find_limit()

    def _find_limit(self) -> tuple[int, Source | None]:
        limits: list[tuple[int, Source]] = [(ENDLESS, self._segment.sources[0])]
        for k, supply in enumerate(self._supplies):
            if supply.source.at_end != "repeat":
                first_refused = min(
                    self._schedule.draw_of(k, base + supply.allowed) - start
                    for base, start in zip(self._bases[k].tolist(), self._lane_starts.tolist(), strict=True)
                )
                limits.append((first_refused // self._segment.lane_batch, supply.source))
        limit, source = min(limits, key=lambda limit: limit[0])
        return limit, None if limit == ENDLESS else source

    def draws(self, step: int, count: int, slots: Int64Array) -> Draws:
        """Return what slots take at `count` steps: arrays [count, *slots.shape]."""
        segment = self._segment
        lanes, within = np.divmod(slots, segment.lane_batch)
        steps = np.arange(step, step + count).reshape(-1, *[1] * slots.ndim)
        draws = lane_by_lane(self._lane_starts[lanes] + within + steps * segment.lane_batch, segment.lane_batch)
        lanes = lane_by_lane(np.broadcast_to(lanes, (count, *slots.shape)), segment.lane_batch)
        periods = draws // PERIOD
        at = draws - periods * PERIOD
        which = self._schedule.source[at]
        nth = periods * self._quotas[which] + self._schedule.nth[at] - self._bases[which, lanes]
        samples, epochs = np.empty_like(nth), np.empty_like(nth)
        for k, supply in enumerate(self._supplies):
            mine = np.flatnonzero(which == k)
            if mine.size:
                of_epochs, positions = supply.positions(lanes[mine], nth[mine])
                epochs[mine] = of_epochs
                samples[mine] = self._placed(supply.source, of_epochs, positions)
        sources, samples, epochs = (
            step_by_step(flat, (count, *slots.shape), segment.lane_batch)
            for flat in (self._numbers[which], samples, epochs)
        )
        return Draws(sources=sources, sample_ids=samples, epochs=epochs)

    def whole_batches(self, step: int) -> int:
        """Return how many steps from this one on, in its epoch, are full global batches: all."""
        _, within, is_first = self.clock.locate(step)
        return (self.clock.first if is_first else self.clock.whole) - within

    def after(self, steps: int) -> Left:
        """Return what is left after so many steps."""
        segment = self._segment
        epoch, within, is_first = self.clock.locate(steps)
        size = self._first_size if is_first else segment.epoch_samples
        counts = [self._counts(k, steps) for k in range(len(self._supplies))]
        streams = {s.source.number: s.after(c) for s, c in zip(self._supplies, counts, strict=True)}
        return Left(
            epoch=epoch,
            size=None if size is None or not (within or is_first) else size - within * segment.global_batch_size,
            streams={**self.left.streams, **streams},
        )

    def num_epochs(self, steps: int) -> dict[int, float]:
        """Return how many epochs of each source, by its number, are gone through after so many steps of the segment."""
        found = {}
        for k, supply in enumerate(self._supplies):
            stream = supply.after(self._counts(k, steps))
            left = sum(part.size for _, part in stream.parts)
            found[supply.source.number] = stream.next_epoch - left / supply.source.num_samples
        return found

    def num_draws(self, steps: int) -> dict[int, int]:
        """Return how many draws each source, by its number, gives in so many steps of the segment."""
        return {s.source.number: int(self._counts(k, steps).sum()) for k, s in enumerate(self._supplies)}

    def find(self, epoch: int, source: int, samples: Int64Array) -> list[list[tuple[int, int]]]:
        """Return of each sample (step, slot) at which it is taken in an epoch of its source."""
        segment = self._segment
        for k, supply in enumerate(self._supplies):
            if supply.source.number == source:
                positions = find_units(
                    segment.order, supply.source.num_samples, segment.samples_per_unit, epoch, samples, source
                )
                return [self._places(k, supply.find(epoch, position)) for position in positions.tolist()]
        return [[] for _ in samples]

    def _places(self, k: int, found: tuple[int, int] | None) -> list[tuple[int, int]]:
        """Return (step, slot) of a lane's nth draw of a source."""
        if found is None:
            return []
        lane, nth = found
        draw = self._schedule.draw_of(k, int(self._bases[k, lane]) + nth) - int(self._lane_starts[lane])
        step, slot = divmod(draw, self._segment.lane_batch)
        return [(step, lane * self._segment.lane_batch + slot)]

    def _counts(self, k: int, steps: int) -> Int64Array:
        """Return how many draws of a source each lane takes in so many steps."""
        draws = self._lane_starts + steps * self._segment.lane_batch
        counts: Int64Array = self._schedule.counts_before(k, draws) - self._bases[k]
        return counts

    def _placed(self, source: Source, epochs: Int64Array, positions: Int64Array) -> Int64Array:
        order, per_unit = self._segment.order, self._segment.samples_per_unit
        first, last = int(epochs.min()), int(epochs.max())
        if first == last:
            return place_units(order, source.num_samples, per_unit, first, positions, source.number)
        samples = np.empty_like(positions)
        for epoch in np.unique(epochs).tolist():
            here = np.flatnonzero(epochs == epoch)
            samples[here] = place_units(order, source.num_samples, per_unit, epoch, positions[here], source.number)
        return samples


def _without(part: Intervals, size: int, taken: Int64Array) -> Intervals:
    """Return a part without the first `taken[l]` ranks of each lane's stretch of `size`."""
    return part.without(Intervals.of((lane * size, lane * size + n) for lane, n in enumerate(taken.tolist())))
