"""The proof that each sample of an epoch goes to one rank, once.

What may be gone through is counted, over all ranks. Of larger epochs some steps are looked at: what they take is asked
for by the inverse of the order, which says at which step and in which slot of its epoch a sample is taken; a function
with an inverse takes nothing twice. Ranks then must share each step without overlap, which is compared rank by rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.batches import Batches, MicroBatch
from tokenyard.datasets.order.segment import ENDLESS, Segment
from tokenyard.datasets.planning import make_batches
from tokenyard.preflight.counted import PartitionError, count_epoch
from tokenyard.preflight.inverse import check_by_inverse
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, failed, passed

#: An epoch up to these is counted; it takes about two seconds.
_MOST_SAMPLES, _MOST_MICRO_BATCHES = 1 << 22, 1 << 19
#: Steps of a larger one that are looked at, and ranks whose own batches are made.
_STEPS, _RANKS = 16, 16
#: Steps that are looked at of a token budget over very many rows, or over a mixture whose epoch has no end: each is
#: found by going through lengths from the first.
_FIRST_STEPS = 1024

_WAY_OUT = "this is a defect of the order: don't train with it, and report these settings"


def partition_line(planned: Planned) -> Line:
    """Prove the partition. Raises ConfigError, StorageError, DataError where the lengths of rows can't be read."""
    stop, what = _stop(planned)
    is_counted = _is_countable(planned, stop)
    steps = _spread(stop, _STEPS)
    try:
        told = count_epoch(planned, stop) if is_counted else check_by_inverse(planned, steps)
        ranks = _check_ranks(planned, steps)
    except PartitionError as e:
        return failed("partition", str(e), _WAY_OUT)
    how = f"counted, {what}" if is_counted else f"by the inverse of the order, at {len(steps)} of {what}"
    return passed(
        "partition", f"{how}: {told}; {ranks} of {planned.ranks} ranks' own batches are their part of the step"
    )


def rank_numbers(planned: Planned) -> list[int]:
    """Return the ranks whose own batches are made: all, or some, evenly spread, the first and the last among them."""
    return _spread(planned.ranks, 2 if planned.is_large_budget else _RANKS)  # each goes through all lengths of rows


def batches_of(planned: Planned, rank: int) -> Batches:
    """Return the batches of a rank, made as that rank makes them."""
    return make_batches(planned.settings, planned.dataset, rank, planned.ranks)


def _stop(planned: Planned) -> tuple[int, str]:
    """Return the step up to which to look, and the stretch in words: an epoch, of a mixture one of each source."""
    batches = planned.batches
    segments = batches.plan.segments
    if batches.budget is None and segments[0].is_mixture and len(segments) == 1:
        stop = batches.progress(_steps_through_all(segments[0])).steps
        stop = sum(batches.plan.group(stop - 1))
        return stop, f"{stop:,} steps, an epoch of each source unless the run ends before"
    if not planned.is_large_budget and (stop := batches.epoch_range(0)[1]) < ENDLESS:
        return stop, f"{stop:,} steps of epoch 0"
    stop = planned.steps if batches.budget is None else min(planned.steps, _FIRST_STEPS)
    stop = batches.progress(stop).steps
    return stop, f"the first {stop:,} steps, not a whole epoch"


def _steps_through_all(segment: Segment) -> int:
    """Return about how many steps go through an epoch of each source of a mixture: some more, as lanes begin apart."""
    weights = sum(source.weight for source in segment.sources)
    draws = max(source.num_samples * weights / source.weight for source in segment.sources)
    return int(draws * 1.02) // segment.global_batch_size + segment.order.lanes + 1


def _is_countable(planned: Planned, stop: int) -> bool:
    """Whether what is looked at may be counted; of steps by a budget of tokens what is looked at always is."""
    batches = planned.batches
    if batches.budget is not None:
        return True
    sizes = [segment.global_batch_size for segment in batches.plan.segments if segment.first_step < stop]
    micro_batches = batches.num_micro_batches(0, stop) * planned.ranks
    return stop * max(sizes) <= _MOST_SAMPLES and micro_batches <= _MOST_MICRO_BATCHES


def _check_ranks(planned: Planned, steps: list[int]) -> int:
    """Compare what ranks make for themselves with their part of the whole step. Raises PartitionError."""
    numbers = rank_numbers(planned)
    for rank in numbers:
        own = batches_of(planned, rank)
        for step in steps:
            whole = planned.batches.of_ranks(step, 1)[0]
            per_rank = len(whole) // planned.ranks
            expected = whole[rank * per_rank : (rank + 1) * per_rank]
            found = own.of_steps(step, 1)[0]
            if len(found) != per_rank or not all(map(_is_same, expected, found)):
                raise PartitionError(
                    f"rank {rank} takes other samples at step {step} than its part of the global batch"
                )
    return len(numbers)


def _spread(count: int, at_most: int) -> list[int]:
    """Some of the numbers below ``count``, evenly spread, the first and the last among them; or all."""
    places: NDArray[np.int64] = np.linspace(0, count - 1, min(count, at_most)).astype(np.int64)
    return [int(place) for place in np.unique(places)]


def _is_same(a: MicroBatch, b: MicroBatch) -> bool:
    return np.array_equal(a.sample_ids, b.sample_ids) and np.array_equal(a.is_padding, b.is_padding)
