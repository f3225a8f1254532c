"""Global batches of rows of like length: the samples of some steps, sorted by length and cut anew (`order/1`).

The ordinary order of a run stays as it is, epoch by epoch. Of each *group* of W steps (`Plan.group`), or of the n that
are left for the last one, from step f of the run on:

- All that the ordinary order gives to the n global batches is sorted by (tokens of the row, step, slot) and cut into n
  global batches again, the shortest rows first.
- Step f + j takes batch perm(n, key(seed, epoch, 4, f))[j] of these, so that lengths don't rise within a group.

A last batch that is padded is no part of a group, and stays as it is. Of a mixture, the epoch is that of the run.
So an epoch has the samples and the steps that it has without grouping, a step is found from its number and the lengths
of one group's rows, and ranks take contiguous slots as ever.
"""

from collections.abc import Callable

import numpy as np

from tokenyard.datasets.order.draws import Draws, Int64Array
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment
from tokenyard.permutation.keyed import key, perm

#: What the keys of these permutations are for; sources have 0, 1, 2, and from 16 on.
PURPOSE = 4

#: Gives the tokens of what was drawn in a segment, int64 of the shape of the draws.
Lengths = Callable[[Segment, Draws], Int64Array]


def grouped_draws(plan: Plan, step: int, lengths: Lengths) -> Draws:
    """Return what the steps of the group take in which a step lies: arrays [steps of the group, slots]."""
    segment = plan.segment(step)
    first, count = plan.group(step)
    draws = plan.draws(first, count, np.arange(segment.global_batch_size))
    if draws.is_padding is not None:
        return draws
    order = by_length(lengths(segment, draws))[perm(count, _key(plan, first), np.arange(count))]
    return Draws(
        sources=None if draws.sources is None else draws.sources.reshape(-1)[order],
        sample_ids=draws.sample_ids.reshape(-1)[order],
        epochs=draws.epochs.reshape(-1)[order],
    )


def by_length(lengths: Int64Array) -> Int64Array:
    """Return which draw (step times slots plus slot) comes where when they are sorted by length.

    Args:
        lengths: int64[steps, slots].

    Returns:
        int64 of the same shape, whose lines are global batches of rising lengths.
    """
    return np.argsort(lengths, axis=None, kind="stable").reshape(lengths.shape)


def _key(plan: Plan, first: int) -> int:
    return key(plan.segment(first).order.seed, plan.epoch_of(first), PURPOSE, first)
