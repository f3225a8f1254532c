"""The samples that steps take, over all ranks, as flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.batches import Batches, MicroBatch, steps_at_once
from tokenyard.datasets.dataset import TokenDataset

Int64Array = NDArray[np.int64]

#: Samples that are placed at a time.
_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Samples that are trained on, those that only fill a batch up left out; int64[n] each.

    Attributes:
        corpora: which of the dataset's corpora it is from.
        epochs: in which epoch of that corpus it is taken.
        samples: its number there, counted in samples of `seq_len` tokens.
        seq_lens: tokens of each; 0 for rows.
    """

    corpora: Int64Array
    epochs: Int64Array
    samples: Int64Array
    seq_lens: Int64Array

    def __len__(self) -> int:
        return len(self.samples)


def taken_by(micro_batches: Sequence[MicroBatch], dataset: TokenDataset) -> Taken:
    """Join micro-batches whose samples have one length."""
    seq_len = micro_batches[0].seq_len
    sized = dataset if seq_len is None else dataset.with_seq_len(seq_len)
    is_real = ~np.concatenate([batch.is_padding for batch in micro_batches])
    corpora, samples = sized.locate(np.concatenate([batch.sample_ids for batch in micro_batches]))
    epochs = np.concatenate([batch.epochs for batch in micro_batches])
    return Taken(
        corpora=corpora[is_real],
        epochs=epochs[is_real],
        samples=samples[is_real],
        seq_lens=np.full(int(is_real.sum()), seq_len or 0, np.int64),
    )


def joined(parts: Iterable[Taken]) -> Taken:
    """Join what several steps take."""
    columns = [(part.corpora, part.epochs, part.samples, part.seq_lens) for part in parts]
    empty = np.empty(0, np.int64)
    corpora, epochs, samples, seq_lens = (
        np.concatenate([empty, *column]) for column in (zip(*columns, strict=True) if columns else [()] * 4)
    )
    return Taken(corpora=corpora, epochs=epochs, samples=samples, seq_lens=seq_lens)


def of_steps(batches: Batches, dataset: TokenDataset, start: int, stop: int) -> Iterator[Taken]:
    """Yield what all ranks take from step ``start`` to before ``stop``, some steps at a time."""
    at_once = 1
    while start < stop:
        steps = batches.of_ranks(start, min(at_once, stop - start))
        at_once = steps_at_once(steps[0], _AT_ONCE)
        yield taken_by([batch for step in steps for batch in step], dataset)
        start += len(steps)
