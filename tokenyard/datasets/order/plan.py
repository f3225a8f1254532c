"""A run as a pure function: which samples every slot of every step takes, segment by segment.

Steps are counted over the whole run: epoch e begins at the step at which all epochs before it are done, whether or not
somebody ran them. So one number, the step, says where a run stands, and any step is found without going through those
before it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from copy import copy

import numpy as np

from tokenyard.datasets.order.draws import Draws, Int64Array
from tokenyard.datasets.order.epochs import EpochCourse
from tokenyard.datasets.order.mixture import MixtureCourse
from tokenyard.datasets.order.segment import ENDLESS, Left, Segment, Source
from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import SIZE_LIMIT, check_int

Course = EpochCourse | MixtureCourse


class Plan:
    """The segments of a run, one after another.

    Attributes:
        segments: by ascending first step, the first of which is 0.
        courses: the arithmetic of each.
        end: the step before which a source ends the run; None where nothing does.
        ended_by: that source.

    Raises:
        ConfigError: segments don't fit together; the message names what changes and must not.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        if not segments or segments[0].first_step:
            raise ConfigError("segments: the first segment of a run begins at step 0")
        self.segments: tuple[Segment, ...] = ()
        self.courses: tuple[Course, ...] = ()
        self.end: int | None = None
        self.ended_by: Source | None = None
        for segment in segments:
            self._add(segment)

    def extended(self, segment: Segment) -> "Plan":
        """Return the plan with one more segment. What is known of those before it is not computed again.

        Raises:
            ConfigError: it doesn't fit to the one before it.
        """
        plan = copy(self)
        plan._add(segment)
        return plan

    def _add(self, segment: Segment) -> None:
        left = Left()
        if self.segments:
            before, course = self.segments[-1], self.courses[-1]
            check_change(before, segment)
            _check_countable(before, segment.first_step)
            _check_group_is_done(before, course, segment.first_step)
            left = course.after(segment.first_step - before.first_step).scaled(before, segment)
        course = MixtureCourse(segment, left) if segment.is_mixture else EpochCourse(segment, left)
        self.segments, self.courses = (*self.segments, segment), (*self.courses, course)
        if self.end is not None and self.end >= segment.first_step:  # the one before it is over sooner
            self.end = self.ended_by = None
        limit = segment.first_step + course.limit
        if self.end is None and limit < ENDLESS:
            self.end, self.ended_by = limit, course.limited_by

    def __repr__(self) -> str:
        return f"Plan({len(self.segments)} segments, {self.courses[-1].clock.whole} steps an epoch)"

    def segment_number(self, step: int) -> int:
        """Return which segment a step belongs to."""
        check_int("step", step, at_least=0)
        return bisect_right(self.segments, step, key=lambda segment: segment.first_step) - 1

    def segment(self, step: int) -> Segment:
        """Return the segment that a step belongs to."""
        return self.segments[self.segment_number(step)]

    def epoch_of(self, step: int) -> int:
        """Return the epoch in which a step lies."""
        i = self.segment_number(step)
        return self.courses[i].clock.locate(step - self.segments[i].first_step)[0]

    def epoch_range(self, epoch: int) -> tuple[int, int]:
        """Return the first step of an epoch, and the first after it. Equal ones where it has no steps (left)."""
        check_int("epoch", epoch, at_least=0)
        first = stop = None
        for i, (segment, course) in enumerate(zip(self.segments, self.courses, strict=True)):
            clock = course.clock
            if clock.epoch > epoch:
                break
            length = self._stop(i) - segment.first_step
            low, high = (min(clock.start_of(e), length) + segment.first_step for e in (epoch, epoch + 1))
            if low < high or first is None or first == stop:
                first = low if first is None or first == stop else first
                stop = high
        assert first is not None, "the first segment begins in epoch 0"
        assert stop is not None
        return (first, stop) if self.end is None else (min(first, self.end), min(stop, self.end))

    def stretch(self, step: int) -> int:
        """Return for how many steps from this one on `draws` may be asked: those of its segment and epoch."""
        i = self.segment_number(step)
        within = step - self.segments[i].first_step
        return min(max(1, self.courses[i].whole_batches(within)), self._stop(i) - step)

    @property
    def has_groups(self) -> bool:
        """Whether steps take other samples than `draws` and `find` say, which are shared out within groups."""
        return any(segment.group_steps > 1 for segment in self.segments)

    def group(self, step: int) -> tuple[int, int]:
        """Return the first step of the group that a step lies in, and how many steps it has.

        Groups are `group_steps` steps, counted from the beginning of each epoch and of each segment. The last one there
        may be shorter, and a padded last batch is a group by itself.
        """
        i = self.segment_number(step)
        start, count = _group(self.segments[i], self.courses[i], step - self.segments[i].first_step)
        return self.segments[i].first_step + start, count

    def draws(self, step: int, count: int, slots: Int64Array) -> Draws:
        """Return what slots of the global batch take at some steps.

        Args:
            step: the first step.
            count: steps, from 1 to `stretch(step)`.
            slots: int64 of any shape, in [0, global_batch_size) of the segment.

        Returns:
            Arrays [count, *slots.shape].

        Raises:
            ConfigError: a source has ended the run before these steps.
        """
        i = self.segment_number(step)
        self.check_not_ended(step + count - 1)
        return self.courses[i].draws(step - self.segments[i].first_step, count, slots)

    def check_not_ended(self, step: int) -> None:
        """Raise ConfigError where the run ends before a step, never comes to it, or can't be counted that far."""
        if self.end is not None and self.ended_by is not None and step >= self.end:
            source = self.ended_by
            raise ConfigError(
                f"step {step}: {source.label} has given all samples of its max_epochs, {source.max_epochs}, by step "
                f"{self.end}, which ends the run, as its at_end is {source.at_end}; raise max_epochs, lower its "
                "weight, or set at_end to repeat"
            )
        if step >= ENDLESS and self.courses[-1].clock.whole >= ENDLESS:
            raise ConfigError(
                "epoch: that of this mixture has no end, so that none follows it; set order.epoch_samples, or go on in "
                "the same epoch with load_state_dict(state_dict())"
            )
        _check_countable(self.segment(step), step)

    def find(self, epoch: int, sample: int, source: int = 0) -> list[tuple[int, int]]:
        """Return (step, slot) of each time that a sample is taken in an epoch of its source.

        Empty where it is left out of that epoch: last_batch drop leaves out less than a global batch.
        """
        samples = np.array([sample])
        return [
            place for i in range(len(self.segments)) for place in self.find_in_segment(i, epoch, samples, source)[0]
        ]

    def find_in_segment(
        self, number: int, epoch: int, samples: Int64Array, source: int = 0
    ) -> list[list[tuple[int, int]]]:
        """Return what `find` does, of each of some samples, in one segment, whose `seq_len` samples are counted in."""
        segment, course = self.segments[number], self.courses[number]
        if epoch < course.clock.epoch and not segment.is_mixture:
            return [[] for _ in samples]
        stop = self._stop(number) if self.end is None else min(self._stop(number), self.end)
        stop -= segment.first_step
        return [
            [(segment.first_step + step, slot) for step, slot in places if step < stop]
            for places in course.find(epoch, source, samples)
        ]

    def _stop(self, i: int) -> int:
        return self.segments[i + 1].first_step if i + 1 < len(self.segments) else ENDLESS


def _group(segment: Segment, course: Course, step: int) -> tuple[int, int]:
    """Return the first step and the number of steps of a group, counted from the beginning of the segment."""
    within = course.clock.locate(step)[1]
    whole = within + course.whole_batches(step)
    if within >= whole:
        return step, 1
    start = within - within % segment.group_steps
    # A source may end the run before the epoch is done.
    stop = min(start + segment.group_steps, whole, within + course.limit - step)
    return step - within + start, stop - start


def _check_countable(segment: Segment, step: int) -> None:
    """Refuse a step by which more samples were drawn than int64 can count."""
    size = segment.global_batch_size
    limit = min(ENDLESS, -(-SIZE_LIMIT // size))
    if step >= limit:
        raise ConfigError(
            f"step: expected less than {limit}, up to which all samples in global batches of {size} can be counted, "
            f"found {step}; ask for an earlier one"
        )


def _check_group_is_done(before: Segment, course: Course, step: int) -> None:
    """Refuse a change in the middle of a group, some of whose samples would be lost and others come twice."""
    within = step - before.first_step
    if within >= course.limit:
        return
    start, count = _group(before, course, within)
    if start != within:
        first, stop = before.first_step + start, before.first_step + start + count
        near = " and ".join(str(edge) for edge in (first, stop) if edge > before.first_step)
        raise ConfigError(
            f"segment from step {step}: length_grouping shares out the samples of steps {first} to {stop - 1} among "
            f"these steps, so nothing can change between them; the nearest at which it can: {near}"
        )


def check_change(before: Segment, after: Segment) -> None:
    """Refuse a change that would take samples twice or leave some out.

    Raises:
        ConfigError: names what differs and must not.
    """
    where = f"segment from step {after.first_step}"
    if after.first_step <= before.first_step:
        raise ConfigError(
            f"{where}: segments begin at ascending steps, but the one before it begins at {before.first_step}"
        )
    for name in ("shuffle", "seed", "block_samples", "window_blocks"):
        a, b = getattr(before.order, name), getattr(after.order, name)
        if a != b:
            raise ConfigError(f"{where}: {name} was {a!r} and would become {b!r}, which is another order; keep it")
    if before.is_mixture != after.is_mixture:
        raise ConfigError(
            f"{where}: a run that reads one corpus can't become a mixture, nor the other way round, since samples "
            "would come twice; begin with data.sources, of which there may be one"
        )
    if not after.is_mixture and before.sources[0].id != after.sources[0].id:
        raise ConfigError(
            f"{where}: the corpus was {before.sources[0].id} and would become {after.sources[0].id}, whose samples may "
            "have been seen; begin with data.sources, which may change, or begin another run"
        )
    known = {source.number: source for source in before.sources}
    for source in after.sources:
        was = known.get(source.number)
        if was is not None and was.id != source.id:
            raise ConfigError(f"{where}: {source.label} was {was.id} and would become {source.id}")
        if was is not None and before.seq_len == after.seq_len and was.num_samples != source.num_samples:
            raise ConfigError(
                f"{where}: {source.label} had {was.num_samples} samples and would have {source.num_samples}"
            )
