"""The micro-batches of one rank, step by step: the plan of the run and the rank's part of every global batch."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.grouped import grouped_draws
from tokenyard.datasets.order.budget import Budget
from tokenyard.datasets.order.draws import Draws
from tokenyard.datasets.order.partition import Partition
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment
from tokenyard.datasets.order.state import State, rebase, to_json
from tokenyard.datasets.rank_context import FirstId, RankContext
from tokenyard.errors import ConfigError

Int64Array = NDArray[np.int64]


class MicroBatch(NamedTuple):
    """Which samples one forward pass takes; arrays of one length. A tuple, since so many are made.

    Attributes:
        sample_ids: int64, numbers of samples in the dataset (those of its second source follow those of its first).
        epochs: int64, the epoch of the sample's source.
        sources: int64, the number of the source in the order's keys; None where the dataset is no mixture.
        is_padding: bool, whether the slot repeats a sample, to fill the last global batch.
        seq_len: tokens of a sample; None where the dataset says it.
    """

    sample_ids: Int64Array
    epochs: Int64Array
    sources: Int64Array | None
    is_padding: NDArray[np.bool_]
    seq_len: int | None = None


class MicroBatchIds(list[int]):
    """The sample ids of a micro-batch, which know it: what a `DataLoader` of torch hands from a sampler to a dataset.

    The ids alone don't say the length of samples, the epoch, the source or the padding.

    Args:
        micro_batch: whose ids these are.
        with_mask: whether its batch says which samples are padding.
    """

    def __init__(self, micro_batch: MicroBatch, with_mask: bool) -> None:
        super().__init__(micro_batch.sample_ids.tolist())
        self.micro_batch = micro_batch
        self.with_mask = with_mask

    def __reduce__(self) -> tuple[type["MicroBatchIds"], tuple[MicroBatch, bool]]:
        return MicroBatchIds, (self.micro_batch, self.with_mask)


class Progress(NamedTuple):
    """How far the plan of a run is gone through by its first steps.

    Attributes:
        steps: how many steps; fewer than were asked for where a source ends the run before.
        plan_steps: the steps of the plan that are done by then.
        left_out: the samples among these that no step of the run takes.
        end: the step before which a source ends the run; None where none does, or where lengths that nobody went
            through yet would tell.
    """

    steps: int
    plan_steps: int
    left_out: int
    end: int | None


class Batches(Protocol):
    """Where the sampler takes its micro-batches from. Steps are those of the run.

    Attributes:
        plan: what is taken, in its order. Its steps are those of the run, or under a budget draws of one sample.
        rank: this rank.
        world_size: data-parallel ranks.
        pads: whether a micro-batch may have padding.
        first_id: gives the number in the dataset of a source's first sample.
    """

    plan: Plan
    first_id: FirstId
    rank: int
    world_size: int
    pads: bool

    @property
    def budget(self) -> Budget | None:
        """What says how many draws a step takes; None where that is the plan."""

    @property
    def is_invertible(self) -> bool:
        """Whether a slot of a step takes what the plan says of that slot and step."""

    def steps_with(self, plan_step: int) -> range:
        """Return the steps among which the samples of a step of the plan are shared out; none if they are left out."""

    def progress(self, steps: int) -> Progress:
        """Return how far the plan is gone through by the first steps of the run."""

    def epoch_of(self, step: int) -> int:
        """Return the epoch in which a step lies."""

    def epoch_range(self, epoch: int) -> tuple[int, int]:
        """Return the first step of an epoch, and the first after it."""

    def num_micro_batches(self, start: int, stop: int) -> int:
        """Return the micro-batches of the steps from start to before stop, the same on all ranks."""

    def of_steps(self, step: int, at_most: int) -> list[list[MicroBatch]]:
        """Return the micro-batches of one or more steps from `step` on. Raises ConfigError where the run has ended."""

    def of_ranks(self, step: int, at_most: int) -> list[list[MicroBatch]]:
        """Return what `of_steps` does, of all ranks: those of rank 0 in turn, then as many of rank 1, and so on."""

    def check(self, step: int) -> None:
        """Raise ConfigError where the run can't go on from a step: it is over, or batches don't fit the ranks."""

    def raises_at(self, step: int) -> bool:
        """Return whether the run is to end with an error before this step."""

    def state(self, step: int) -> dict[str, object]:
        """Return, as JSON values, all that is needed to go on at a step."""

    def resumed(self, state: Mapping[str, object], new_segment: bool) -> tuple[Self, int]:
        """Return the batches of the run that a state belongs to, and the step to go on with. Raises ConfigError."""


class FixedBatches:
    """Global batches of a fixed number of samples, of which a rank takes its slots. See `Batches`.

    Args:
        plan: which samples each slot takes.
        context: the rank, and the corpora; lengths of rows are asked for where batches are grouped by length.
        micro_batch_size: samples of one forward pass on one rank; None for all of a step.

    Raises:
        ConfigError: the last segment's global batch can't be shared by the ranks, or not be cut into micro-batches.
            Those before it may be over when the run goes on from a state, so that is left to `check`.
    """

    def __init__(self, plan: Plan, context: RankContext, *, micro_batch_size: int | None) -> None:
        self.plan = plan
        self.budget = None
        self.rank, self.world_size = context.rank, context.world_size
        self.micro_batch_size = micro_batch_size
        self._context = context
        self.first_id = context.first_id
        self._group: tuple[int, Draws] | None = None
        self.pads = any(segment.last_batch == "pad" for segment in plan.segments)
        self._partition(plan.segments[-1])

    @property
    def is_invertible(self) -> bool:
        """Whether batches aren't grouped by length."""
        return not self.plan.has_groups

    def steps_with(self, plan_step: int) -> range:
        """Return the steps of a step's group, or that step alone."""
        first, count = self.plan.group(plan_step)
        return range(first, first + count)

    def progress(self, steps: int) -> Progress:
        """Return how far the run is: the plan's steps are its own."""
        end = self.plan.end
        reached = steps if end is None else min(steps, end)
        if reached:
            self.plan.check_not_ended(reached - 1)
        return Progress(steps=reached, plan_steps=reached, left_out=0, end=end)

    def partition(self, step: int) -> Partition:
        """Return the rank's part of a step's global batch."""
        return self._partition(self.plan.segment(step))

    def epoch_of(self, step: int) -> int:
        """Return the epoch in which a step lies."""
        return self.plan.epoch_of(step)

    def epoch_range(self, epoch: int) -> tuple[int, int]:
        """Return the first step of an epoch, and the first after it."""
        return self.plan.epoch_range(epoch)

    def num_micro_batches(self, start: int, stop: int) -> int:
        """Return the micro-batches of some steps, those of a past that doesn't fit as if they were rounded up."""
        firsts = [*(segment.first_step for segment in self.plan.segments[1:]), stop]
        total = 0
        for segment, end in zip(self.plan.segments, firsts, strict=True):
            end = max(start, min(end, stop))
            rank_batch_size = -(-segment.global_batch_size // self.world_size)
            total += (end - start) * -(-rank_batch_size // (self.micro_batch_size or rank_batch_size))
            start = end
        return total

    def of_steps(self, step: int, at_most: int) -> list[list[MicroBatch]]:
        """Return the micro-batches of some steps."""
        return self._of_slots(step, at_most, self.partition(step).slots)

    def of_ranks(self, step: int, at_most: int) -> list[list[MicroBatch]]:
        """Return the micro-batches of some steps, of all ranks."""
        part = self.partition(step)
        return self._of_slots(step, at_most, np.arange(part.global_batch_size).reshape(-1, part.micro_batch_size))

    def check(self, step: int) -> None:
        """Raise ConfigError where a source has ended the run, or the ranks can't share what comes from a step on."""
        self.plan.check_not_ended(step)
        for segment in self.plan.segments[self.plan.segment_number(step) :]:
            self._partition(segment)

    def raises_at(self, step: int) -> bool:
        """Return whether the run is to end with an error before this step."""
        ended_by = self.plan.ended_by
        return (
            self.plan.end is not None and step >= self.plan.end and ended_by is not None and ended_by.at_end == "raise"
        )

    def state(self, step: int) -> dict[str, object]:
        """Return the state at a step."""
        return to_json(self.plan, step)

    def resumed(self, state: Mapping[str, object], new_segment: bool) -> tuple["FixedBatches", int]:
        """Return the batches of a state's run."""
        if "token_budget" in state:
            raise ConfigError(
                "state: it was taken of a run with order.token_budget, but there is order.global_batch_size; go on "
                "with the settings of that run, or begin another one"
            )
        found = State.from_json(state).renamed(self._context.other_ids())
        plan = rebase(self.plan, found, new_segment=new_segment, any_window=self._context.any_window)
        return FixedBatches(plan, self._context, micro_batch_size=self.micro_batch_size), found.step

    def _of_slots(self, step: int, at_most: int, slots: Int64Array) -> list[list[MicroBatch]]:
        """Return what slots take at some steps, a micro-batch for each line of slots."""
        self.plan.check_not_ended(step)
        segment, end = self.plan.segment(step), self.plan.end
        if segment.group_steps > 1:
            first, draws = self._group_of(step)
            draws = draws.taken(slice(step - first, step - first + at_most), slots)
        else:
            count = min(self.plan.stretch(step), at_most)
            draws = self.plan.draws(step, count if end is None else min(count, end - step), slots)
        return micro_batches_of(segment, draws, self._context.first_id)

    def _partition(self, segment: Segment) -> Partition:
        size = segment.global_batch_size
        try:
            return Partition(
                rank=self.rank,
                world_size=self.world_size,
                global_batch_size=size,
                micro_batch_size=self.micro_batch_size or max(1, size // self.world_size),
            )
        except ConfigError as e:
            if not segment.first_step:
                raise
            raise ConfigError(f"segment from step {segment.first_step}: {e}") from None

    def _group_of(self, step: int) -> tuple[int, Draws]:
        """Return the first step of a step's group, and what the group takes. The last one is kept: it serves often."""
        first = self.plan.group(step)[0]
        group = self._group
        if group is None or group[0] != first:
            group = self._group = (first, grouped_draws(self.plan, first, self._lengths))
        return group

    def _lengths(self, segment: Segment, draws: Draws) -> Int64Array:
        return self._context.lengths(numbers_in_dataset(segment, draws, self._context.first_id))


def numbers_in_dataset(segment: Segment, draws: Draws, first_id: FirstId) -> Int64Array:
    """Return the samples by their numbers in the dataset, in the shape of the draws."""
    if draws.sources is None:
        return draws.sample_ids
    numbers = np.array([source.number for source in segment.sources])
    firsts = np.array([first_id(source.id, segment.seq_len) for source in segment.sources])
    found: Int64Array = draws.sample_ids + firsts[np.searchsorted(numbers, draws.sources)]
    return found


def micro_batches_of(segment: Segment, draws: Draws, first_id: FirstId) -> list[list[MicroBatch]]:
    """Return the micro-batches of each step, of arrays [steps, micro-batches, samples]."""
    ids = numbers_in_dataset(segment, draws, first_id)
    num_steps, num_micro_batches, size = ids.shape
    padding: Iterable[NDArray[np.bool_]] = repeat(np.broadcast_to(np.False_, size))
    if draws.is_padding is not None:
        padding = draws.is_padding.reshape(-1, size)
    sources = repeat(None) if draws.sources is None else draws.sources.reshape(-1, size)
    rows = zip(ids.reshape(-1, size), draws.epochs.reshape(-1, size), sources, padding, repeat(segment.seq_len))
    made = list(map(MicroBatch._make, rows))
    return [made[at : at + num_micro_batches] for at in range(0, num_steps * num_micro_batches, num_micro_batches)]


def steps_at_once(batches: Sequence[MicroBatch], samples: int) -> int:
    """Return how many steps like these have about so many samples."""
    return max(1, samples // max(1, sum(len(batch.sample_ids) for batch in batches)))
