"""What is in the global batch of a step: samples, rows, shards and documents, slot by slot, without running the job.

Nothing here reads tokens: the order is arithmetic, and where rows lie is in the corpora's indexes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.datasets.batches import Batches, MicroBatch
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.pieces import UNKNOWN, Pieces, pieces_of, row_ranges
from tokenyard.errors import ConfigError

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Tokens of one document that a sample holds.

    Attributes:
        shard: the file that holds them, in its corpus's folder.
        row: the row of the corpus.
        document: the number of the document in its row, 0 where a row is a document; None where the corpus is packed
            and doesn't say where documents begin.
        start: the first token, counted in the row.
        stop: the token after the last.
    """

    shard: str
    row: int
    document: int | None
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Slot:
    """What one slot of a global batch holds.

    Attributes:
        slot: its number in the global batch: ranks in their order, their micro-batches, the samples of each.
        rank: the rank that trains on it.
        micro_batch: which of the rank's micro-batches in this step.
        source: the name of the corpus.
        source_number: the number of the source in the keys of the order, counted by first use in the run.
        epoch: which epoch of its source it is taken in.
        sample: the sample in its source; of windows, counted in windows of `seq_len` tokens.
        seq_len: tokens of the sample, where samples are windows of the token stream; None for rows.
        is_padding: whether the slot only fills the last global batch up.
        start: the first token of the input, counted over the source's token stream.
        stop: the token after its last. Shifted labels of a window hold that token too.
        pieces: what these tokens are, in their order. Padding that packed rows end in is in none.
    """

    slot: int
    rank: int
    micro_batch: int
    source: str
    source_number: int
    epoch: int
    sample: int
    seq_len: int | None
    is_padding: bool
    start: int
    stop: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What is in a step.

    Attributes:
        step: the step of the run.
        epoch: the epoch of the run.
        global_batch_size: slots of the step over all ranks.
        world_size: the ranks that share it.
        slots: those of all ranks in ascending order, or those of the rank that was asked for.
    """

    step: int
    epoch: int
    global_batch_size: int
    world_size: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True, kw_only=True)
class GlobalBatch:
    """The samples of a step over all ranks; arrays [slots].

    Attributes:
        ranks: int64, the rank of each.
        micro_batches: int64, its micro-batch in the step.
        corpora: int64, which of the dataset's corpora it is from.
        numbers: int64, the number of its source in the keys of the order; 0 where a corpus is all there is.
        samples: int64, the sample in its source.
        epochs: int64, the epoch of its source.
        is_padding: bool, whether it only fills the batch up.
        seq_len: tokens of a window; None for rows.
    """

    ranks: Int64Array
    micro_batches: Int64Array
    corpora: Int64Array
    numbers: Int64Array
    samples: Int64Array
    epochs: Int64Array
    is_padding: NDArray[np.bool_]
    seq_len: int | None


def global_batch(batches: Sequence[MicroBatch], world_size: int, dataset: TokenDataset) -> GlobalBatch:
    """Join the micro-batches of one step that `Batches.of_ranks` gives."""
    sizes = [len(batch.sample_ids) for batch in batches]
    ranks, micro_batches = np.divmod(np.arange(len(batches)), len(batches) // world_size)
    seq_len = batches[0].seq_len
    sized = dataset if seq_len is None else dataset.with_seq_len(seq_len)
    corpora, samples = sized.locate(np.concatenate([batch.sample_ids for batch in batches]))
    return GlobalBatch(
        ranks=np.repeat(ranks, sizes),
        micro_batches=np.repeat(micro_batches, sizes),
        corpora=corpora,
        numbers=np.concatenate([_numbers(batch) for batch in batches]),
        samples=samples,
        epochs=np.concatenate([batch.epochs for batch in batches]),
        is_padding=np.concatenate([batch.is_padding for batch in batches]),
        seq_len=seq_len,
    )


def token_ranges(corpus: Corpus, samples: Int64Array, seq_len: int | None) -> tuple[Int64Array, Int64Array]:
    """Return the first token of each sample's input, counted over the corpus, and the token after its last."""
    if seq_len is None:
        return row_ranges(corpus, samples)
    return samples * seq_len, (samples + 1) * seq_len


def receipt(batches: Batches, dataset: TokenDataset, step: int, rank: int | None = None) -> Receipt:
    """Return what is in a step.

    Args:
        batches: of any rank of the world.
        dataset: where samples come from.
        step: the step of the run, counted over all epochs.
        rank: whose slots to tell; of all ranks when not given.

    Raises:
        ConfigError: there is no such rank, or the run has ended before the step.
    """
    world_size = batches.world_size
    if rank is not None and not 0 <= rank < world_size:
        raise ConfigError(
            f"rank: expected one of the ranks 0 .. {world_size - 1} of world_size {world_size}, found {rank}"
        )
    batch = global_batch(batches.of_ranks(step, 1)[0], world_size, dataset)
    size = len(batch.samples)
    which = np.arange(size) if rank is None else np.flatnonzero(batch.ranks == rank)
    starts, stops, pieces = _contents(dataset, batch, which)
    columns = (batch.ranks, batch.micro_batches, batch.corpora, batch.numbers, batch.epochs, batch.samples)
    rows = np.stack([which, *(column[which] for column in columns), starts, stops], axis=1).tolist()
    return Receipt(
        step=step,
        epoch=batches.epoch_of(step),
        global_batch_size=size,
        world_size=world_size,
        slots=tuple(
            Slot(
                slot=slot,
                rank=of_rank,
                micro_batch=micro_batch,
                source=dataset.source_names[corpus],
                source_number=number,
                epoch=epoch,
                sample=sample,
                seq_len=batch.seq_len,
                is_padding=is_padding,
                start=start,
                stop=stop,
                pieces=of_slot,
            )
            for (slot, of_rank, micro_batch, corpus, number, epoch, sample, start, stop), is_padding, of_slot in zip(
                rows, batch.is_padding[which].tolist(), pieces, strict=True
            )
        ),
    )


def _contents(
    dataset: TokenDataset, batch: GlobalBatch, which: Int64Array
) -> tuple[Int64Array, Int64Array, list[tuple[Piece, ...]]]:
    """Return the token range and the pieces of some slots; each corpus is asked once."""
    starts, stops = np.empty_like(which), np.empty_like(which)
    pieces: list[tuple[Piece, ...]] = [()] * len(which)
    for k in np.unique(batch.corpora[which]).tolist():
        corpus = dataset.corpora[k]
        here = np.flatnonzero(batch.corpora[which] == k)
        starts[here], stops[here] = token_ranges(corpus, batch.samples[which[here]], batch.seq_len)
        for place, of_slot in zip(
            here.tolist(), _told(corpus, pieces_of(corpus, starts[here], stops[here]), len(here)), strict=True
        ):
            pieces[place] = of_slot
    return starts, stops, pieces


def _told(corpus: Corpus, pieces: Pieces, count: int) -> list[tuple[Piece, ...]]:
    names = [shard.name for shard in corpus.manifest.shards]
    columns = (pieces.shards, pieces.rows, pieces.documents, pieces.starts, pieces.stops)
    told = [
        Piece(shard=names[shard], row=row, document=None if document == UNKNOWN else document, start=start, stop=stop)
        for shard, row, document, start, stop in np.stack(columns, axis=1).tolist()
    ]
    edges = np.searchsorted(pieces.of, np.arange(count + 1)).tolist()
    return [tuple(told[a:b]) for a, b in pairwise(edges)]


def _numbers(batch: MicroBatch) -> Int64Array:
    return np.zeros(len(batch.sample_ids), np.int64) if batch.sources is None else batch.sources
