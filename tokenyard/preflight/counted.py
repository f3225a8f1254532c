"""Counting how often each sample of an epoch is taken, over all ranks."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.order.segment import Segment
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.samples import Taken, joined, of_steps

Int64Array = NDArray[np.int64]


class PartitionError(Exception):
    """The proof failed; the message says where."""


def count_epoch(planned: Planned, stop: int) -> str:
    """Count what the steps before ``stop`` take. Returns what was found, in words. Raises PartitionError."""
    batches, dataset = planned.batches, planned.dataset
    taken = joined(of_steps(batches, dataset, 0, stop))
    segments = [segment for segment in batches.plan.segments if segment.first_step < stop]
    num_taken = 0
    left_out: list[str] = []
    for corpus in np.unique(taken.corpora).tolist():
        name = dataset.source_names[corpus]
        of_corpus = taken.corpora == corpus
        for epoch in np.unique(taken.epochs[of_corpus]).tolist():
            here = of_corpus & (taken.epochs == epoch)
            cells, counts = np.unique(_cells(taken, here, segments), return_counts=True)
            if (most := int(counts.max())) > 1:
                cell = int(cells[int(np.argmax(counts))])
                raise PartitionError(
                    f"sample {cell // _per_sample(taken, here, segments)} of {name} is taken {most} times in epoch "
                    f"{epoch}, and {int((counts > 1).sum()):,} samples more than once"
                )
            num_taken += int(here.sum())
        if not segments[0].is_mixture:
            left_out.append(_left_out(planned, taken, segments))
    return ", ".join([f"{num_taken:,} samples are taken once, none twice", *left_out, *_finished(planned, taken, stop)])


def _unit(segments: list[Segment]) -> int:
    """The tokens that samples of all lengths are whole numbers of."""
    return gcd(*(segment.seq_len or 0 for segment in segments)) or 1


def _per_sample(taken: Taken, here: NDArray[np.bool_], segments: list[Segment]) -> int:
    return max(1, int(taken.seq_lens[here].max()) // _unit(segments))


def _cells(taken: Taken, here: NDArray[np.bool_], segments: list[Segment]) -> Int64Array:
    """What samples are made of, in units that are the same for samples of all lengths."""
    samples, lengths = taken.samples[here], taken.seq_lens[here]
    if len(np.unique(lengths)) <= 1:
        return samples
    width = lengths // _unit(segments)
    starts = np.repeat(samples * width, width)
    return starts + np.arange(len(starts)) - np.repeat(np.cumsum(width) - width, width)


def _left_out(planned: Planned, taken: Taken, segments: list[Segment]) -> str:
    """Say how much of a single corpus no step takes. Raises PartitionError where that is more than may be left over."""
    if planned.is_large_budget:
        return "the rest of the epoch was not gone through"
    last, budget, unit = segments[-1], planned.batches.budget, _unit(segments)
    width = max(1, (last.seq_len or 0) // unit)
    total = last.sources[0].num_samples * width
    num_left = total - int(np.maximum(1, taken.seq_lens // unit).sum())
    most = 0
    if last.last_batch == "drop":
        most = (last.global_batch_size - 1 if budget is None else budget.tokens * budget.micro_batches) * width
    if len({segment.seq_len for segment in segments}) > 1:
        # Where a lane stopped, less than one new sample is lost.
        most += sum(segment.order.lanes + 1 for segment in segments) * max(s.seq_len or 1 for s in segments) // unit
    if not 0 <= num_left <= most:
        raise PartitionError(
            f"{num_left:,} of {total:,} {_what(segments)} are taken by no rank; expected at most {most:,} "
            f"(last_batch: {last.last_batch})"
        )
    return f"{num_left:,} {_what(segments)} left over (last_batch: {last.last_batch})" if num_left else "none left out"


def _what(segments: list[Segment]) -> str:
    lengths = {segment.seq_len for segment in segments}
    return f"stretches of {_unit(segments):,} tokens" if len(lengths) > 1 else "samples"


def _finished(planned: Planned, taken: Taken, stop: int) -> list[str]:
    """Say how many epochs of a mixture's sources are complete. Raises PartitionError where one lacks samples."""
    plan, budget = planned.batches.plan, planned.batches.budget
    if not plan.segments[0].is_mixture or len(plan.segments) > 1 or budget is not None:
        return []
    segment, left = plan.segments[0], plan.courses[0].after(stop)
    lanes, finished = segment.order.lanes, 0
    for source in segment.sources:
        stream = left.streams[source.number]
        unfinished = {epoch for epoch, _ in stream.parts}
        of_source = taken.epochs[taken.corpora == source.number]
        for epoch in range(stream.next_epoch):
            if epoch in unfinished:
                continue
            finished += 1
            expected = source.num_samples - source.num_samples % lanes
            if (found := int((of_source == epoch).sum())) != expected:
                raise PartitionError(
                    f"epoch {epoch} of {source.label} is over, but {found:,} samples of it were taken, not {expected:,}"
                )
    return (
        [f"{finished} epochs of sources are complete, but for fewer samples than the {lanes} lanes"] if finished else []
    )
