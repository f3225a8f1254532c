"""Looking at some steps by the inverse of the order: where in its epoch is each of their samples taken?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.batches import Batches
from tokenyard.datasets.order.draws import find_units
from tokenyard.datasets.order.segment import ENDLESS
from tokenyard.preflight.counted import PartitionError
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.samples import joined, of_steps

Int64Array = NDArray[np.int64]

#: Slots of a step that are asked for, and samples of each source that are, drawn by a seed.
_SLOTS, _SAMPLES = 32, 64


def check_by_inverse(planned: Planned, steps: list[int]) -> str:
    """Check some steps. Returns what was found, in words. Raises PartitionError."""
    num_slots = sum(_check_step(planned, step) for step in steps)
    num_samples = _check_samples(planned)
    return (
        f"{num_slots:,} samples of these steps are taken there and nowhere else in their epoch, and {num_samples:,} "
        "samples drawn from all of the corpora in one slot of theirs"
    )


def _check_step(planned: Planned, step: int) -> int:
    """Hold the samples of a step, or of the group that it shares them with, to their places in the plan."""
    batches, plan = planned.batches, planned.batches.plan
    first, count = plan.group(step)
    taken = joined(of_steps(batches, planned.dataset, first, first + count))
    keys = np.stack([taken.corpora, taken.epochs, taken.samples], axis=1)
    if len(np.unique(keys, axis=0)) != len(keys):
        raise PartitionError(f"steps {first} to {first + count - 1} take a sample more than once")
    which = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), _SLOTS)).astype(np.int64))
    number = plan.segment_number(step)
    segment = plan.segments[number]
    numbers = {k: k if segment.is_mixture else segment.sources[0].number for k in range(len(planned.dataset.corpora))}
    asked = keys[which]
    for corpus, epoch in np.unique(asked[:, :2], axis=0).tolist():
        samples = asked[(asked[:, 0] == corpus) & (asked[:, 1] == epoch), 2]
        found = plan.find_in_segment(number, epoch, samples, numbers[corpus])
        for sample, places in zip(samples.tolist(), found, strict=True):
            steps = {at for place, _ in places for at in batches.steps_with(place)}
            if step not in steps or (len(places) > 1 and segment.last_batch != "pad"):
                raise PartitionError(
                    f"sample {sample} of {planned.dataset.source_names[corpus]} is taken at step {step} in its epoch "
                    f"{epoch}, but by the inverse of the order at {places or 'none'} (step, slot)"
                )
    return len(which)


def _check_samples(planned: Planned) -> int:
    """Draw samples of the first segment's sources: each is in one slot of its epoch, or among those left over."""
    plan = planned.batches.plan
    segment, course = plan.segments[0], plan.courses[0]
    rng = np.random.Generator(np.random.Philox(0))
    found = 0
    for source in segment.sources:
        samples = rng.integers(0, source.num_samples, _SAMPLES)
        places = course.find(0, source.number, samples)
        for sample, of_sample in zip(samples.tolist(), places, strict=True):
            if len(of_sample) > 1 and segment.last_batch != "pad":
                raise PartitionError(f"sample {sample} of {source.label} is taken at {of_sample} of epoch 0")
            if not of_sample and not _is_left_over(planned, source.number, sample):
                raise PartitionError(f"sample {sample} of {source.label} is taken at no step of epoch 0")
            if of_sample and (fault := _not_there(planned.batches, source.number, sample, of_sample[0])):
                raise PartitionError(fault)
            found += bool(of_sample)
    return found


def _is_left_over(planned: Planned, number: int, sample: int) -> bool:
    """Whether a sample stands at the end of its epoch, where less than a global batch, or than the lanes, is left."""
    segment = planned.batches.plan.segments[0]
    (source,) = [source for source in segment.sources if source.number == number]
    key = source.number if segment.is_mixture else None
    (position,) = find_units(
        segment.order, source.num_samples, segment.samples_per_unit, 0, np.array([sample]), key
    ).tolist()
    size = segment.order.lanes if segment.is_mixture else segment.global_batch_size
    return bool(position >= source.num_samples - source.num_samples % size)


def _not_there(batches: Batches, source: int, sample: int, place: tuple[int, int]) -> str:
    """Why a slot doesn't take a sample; "" where it does."""
    step, slot = place
    plan = batches.plan
    end = plan.segments[1].first_step if len(plan.segments) > 1 else ENDLESS
    if step >= (end if plan.end is None else min(end, plan.end)):
        return ""
    draws = plan.draws(step, 1, np.array([slot]))
    there = 0 if draws.sources is None else int(draws.sources[0, 0])
    if int(draws.sample_ids[0, 0]) == sample and (draws.sources is None or there == source):
        return ""
    return (
        f"sample {sample} should be in slot {slot} of step {step}, which takes {int(draws.sample_ids[0, 0])} of source "
        f"{there}"
    )
