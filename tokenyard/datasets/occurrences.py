"""At which steps a row is seen: by the inverse of the order, which names the step, or the few steps to look through."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment
from tokenyard.datasets.pieces import row_ranges
from tokenyard.datasets.planning import corpus_id
from tokenyard.datasets.receipt import global_batch
from tokenyard.errors import ConfigError

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """A sample that holds tokens of the row, where a step takes it.

    Attributes:
        step: the step of the run.
        slot: its slot in the global batch.
        sample: its number in its source; of windows, counted in windows of `seq_len` tokens.
        seq_len: tokens of a window; None for rows.
        start: the first token of the row that it holds, counted in the row.
        stop: the token after the last.
    """

    step: int
    slot: int
    sample: int
    seq_len: int | None
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class RowEpoch:
    """Where an epoch of the source takes a row.

    Attributes:
        epoch: the epoch of the row's source.
        seen: by ascending step and slot. A sample that fills the last global batch up comes again.
        left_out: (start, stop) of the row's tokens that no step of this epoch has as input: they lie in samples that
            `last_batch: drop` leaves out, past the last whole window, past the end of the run, or in an epoch of which
            the run takes nothing.
    """

    epoch: int
    seen: tuple[Occurrence, ...]
    left_out: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class RowReport:
    """At which steps a row is seen.

    Attributes:
        source: the name of its corpus.
        row: its number there.
        num_tokens: its tokens.
        by_scanning: whether the lengths of other rows were read for it, those of its group or all before it in the
            epoch; else the order alone says it.
        epochs: an entry for each epoch that was asked for.
    """

    source: str
    row: int
    num_tokens: int
    by_scanning: bool
    epochs: tuple[RowEpoch, ...]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A row, by the places it takes: its corpus in the dataset, its number, and its tokens in the stream."""

    corpus: int
    number: int
    start: int
    stop: int

    def samples(self, seq_len: int | None) -> range:
        """Return the samples that hold tokens of it; of rows it is one itself."""
        if seq_len is None:
            return range(self.number, self.number + 1)
        return range(self.start // seq_len, -(-self.stop // seq_len) if self.stop > self.start else 0)

    def occurrence(self, step: int, slot: int, sample: int, seq_len: int | None) -> Occurrence:
        """Return where a sample is taken, and which of the row's tokens it holds."""
        low, high = (self.start, self.stop) if seq_len is None else (sample * seq_len, (sample + 1) * seq_len)
        start, stop = max(low, self.start) - self.start, min(high, self.stop) - self.start
        return Occurrence(step=step, slot=slot, sample=sample, seq_len=seq_len, start=start, stop=stop)

    def epoch(self, number: int, seen: Iterable[Occurrence]) -> RowEpoch:
        """Return what an epoch takes of it, and what is left."""
        seen = tuple(sorted(seen, key=attrgetter("step", "slot")))
        end, left_out = 0, []
        for start, stop in [*sorted((o.start, o.stop) for o in seen), (self.stop - self.start,) * 2]:
            if start > end:
                left_out.append((end, start))
            end = max(end, stop)
        return RowEpoch(epoch=number, seen=seen, left_out=tuple(left_out))


def occurrences(
    batches: Batches, dataset: TokenDataset, row: int, source: str | None = None, epochs: Sequence[int] = (0,)
) -> RowReport:
    """Return at which steps a row is seen, as input, in some epochs of its source.

    Where global batches have a fixed number of samples the order is inverted, which takes the same time at any step:
    more for more samples that hold tokens of the row.
    Where lengths decide on steps too, those of the group are read, or all in the epoch up to the row.

    Args:
        batches: of any rank of the world.
        dataset: where samples come from.
        row: the number of the row in its corpus.
        source: the name of the corpus, where there are several.
        epochs: which epochs of the source, from 0 on.

    Raises:
        ConfigError: there is no such source or row, or it lies before a change after which steps before are not known.
    """
    corpus = _source_index(dataset, source)
    found = _row(dataset, corpus, row)
    of_epoch = _in_plan if batches.is_invertible else _in_steps
    return RowReport(
        source=dataset.source_names[corpus],
        row=row,
        num_tokens=found.stop - found.start,
        by_scanning=not batches.is_invertible,
        epochs=tuple(found.epoch(epoch, of_epoch(batches, dataset, found, epoch)) for epoch in epochs),
    )


def _in_plan(batches: Batches, dataset: TokenDataset, row: _Row, epoch: int) -> Iterator[Occurrence]:
    """Yield where an epoch of the source takes the row, of batches that the plan tells all about."""
    for segment, sample, step, slot in _planned(batches.plan, dataset, row, epoch):
        yield row.occurrence(step, slot, sample, segment.seq_len)


def _in_steps(batches: Batches, dataset: TokenDataset, row: _Row, epoch: int) -> Iterator[Occurrence]:
    """Yield the same, of others: looked for in the steps among which the plan's samples are shared out."""
    planned = {step for _, _, step, _ in _planned(batches.plan, dataset, row, epoch)}
    for step in sorted({step for near in planned for step in batches.steps_with(near)}):
        batch = global_batch(batches.of_ranks(step, 1)[0], batches.world_size, dataset)
        samples = row.samples(batch.seq_len)
        here = (batch.samples >= samples.start) & (batch.samples < samples.stop)
        here &= (batch.corpora == row.corpus) & (batch.epochs == epoch)
        for slot in np.flatnonzero(here).tolist():
            yield row.occurrence(step, slot, int(batch.samples[slot]), batch.seq_len)


def _planned(plan: Plan, dataset: TokenDataset, row: _Row, epoch: int) -> Iterator[tuple[Segment, int, int, int]]:
    """Yield the segment, sample, step and slot of the plan of each time that tokens of the row are taken."""
    id = corpus_id(dataset.corpora[row.corpus])
    for number, segment in enumerate(plan.segments):
        for source, samples in _drawn(segment, id, row):
            found = plan.find_in_segment(number, epoch, samples, source)
            for sample, places in zip(samples.tolist(), found, strict=True):
                for step, slot in places:
                    yield segment, sample, step, slot


def _drawn(segment: Segment, id: str, row: _Row) -> list[tuple[int, Int64Array]]:
    """Return the samples of each source of a segment that hold tokens of the row, and the number of the source."""
    samples = row.samples(segment.seq_len)
    return [
        (source.number, np.arange(samples.start, min(samples.stop, source.num_samples)))
        for source in segment.sources
        if source.id == id
    ]


def _source_index(dataset: TokenDataset, source: str | None) -> int:
    names = dataset.source_names
    if source is None and len(names) == 1:
        return 0
    if source is None:
        raise ConfigError(f"source: rows are counted in each source; name one of {', '.join(names)}")
    if source not in names:
        raise ConfigError(f"source: expected one of {', '.join(names)}, found {source!r}")
    return names.index(source)


def _row(dataset: TokenDataset, corpus: int, row: int) -> _Row:
    of = dataset.corpora[corpus]
    if not 0 <= row < len(of):
        raise ConfigError(f"row: {row} is not within the {len(of)} rows of {dataset.source_names[corpus]!r}")
    starts, stops = row_ranges(of, np.array([row]))
    return _Row(corpus=corpus, number=row, start=int(starts[0]), stop=int(stops[0]))
