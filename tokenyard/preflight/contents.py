"""What rows of a corpus hold: ids, documents and their marks, and some documents to try a tokenizer on; in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.display.quantities import percent
from tokenyard.looking.counting import Counts, count, sample
from tokenyard.looking.lengths import spread_shards
from tokenyard.preflight.documents import MarkCounts, Marks, Spans, documents_of, may_be_rests
from tokenyard.rows import RowBatch

Int64Array = NDArray[np.int64]
Item = TypeVar("Item")

#: Tokens that are read of a larger corpus, in stretches of rows spread over it.
_SAMPLE_TOKENS = 1 << 20
#: Where whole shards must be decoded, or blocks fetched, for a row of them: as many shards, on a disk and at a URL.
_LOCAL_SHARDS, _REMOTE_SHARDS = 8, 4
#: Documents that a tokenizer is tried on, and the most tokens of each.
_PIECES, _PIECE_TOKENS = 64, 256
#: Where rows are longer than a sample: windows of the token stream, and their tokens.
_WINDOWS, _WINDOW_TOKENS = 64, 1 << 12


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Ids of one document, int64[n], and whether its begin and its end are there, or it was cut."""

    ids: Int64Array
    has_begin: bool
    has_end: bool


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What was read of a corpus.

    Attributes:
        corpus: which.
        ids: how often each id occurs.
        named: the ids that begin and end documents.
        marks: what documents begin and end with; None where nothing tells where they do.
        pieces: some documents, without BOS and EOS.
        told: how much was read, in words.
    """

    corpus: Corpus
    ids: Counts
    named: Marks
    marks: MarkCounts | None
    pieces: tuple[Piece, ...]
    told: str

    @property
    def largest_id(self) -> int | None:
        """The largest id that was read, of those that a vocabulary may have; None of no tokens."""
        found = np.flatnonzero(self.ids.ids)
        return int(found[-1]) if len(found) else None


def look_into(corpus: Corpus, marks: Marks, *, full: bool) -> Contents:
    """Read all rows, or a sample, the same each time. Raises DataError, StorageError."""
    counted, pieces = MarkCounts(marks), list[Piece]()
    are_told = [False]

    def batches() -> Iterator[RowBatch]:
        for batch in corpus.batches() if full else _sample(corpus):
            spans = documents_of(corpus, batch, marks.eos)
            if spans is not None:
                are_told[0] = True
                counted.add(batch.tokens, spans)
            if len(pieces) < _PIECES * _PIECES:
                pieces.extend(_pieces(batch, spans, marks, may_be_rests=may_be_rests(corpus)))
            yield batch

    found = count(corpus, batches())
    if not found.num_tokens and corpus.num_tokens:
        found = count(corpus, _windows(corpus))
    share = found.num_tokens / max(1, corpus.num_tokens)
    told = f"all {found.num_tokens:,} tokens" if share == 1 else f"{found.num_tokens:,} tokens, {percent(share)} of all"
    return Contents(
        corpus=corpus,
        ids=found,
        named=marks,
        marks=counted if are_told[0] else None,
        pieces=tuple(_spread(pieces, _PIECES)),
        told=told,
    )


def _sample(corpus: Corpus) -> Iterator[RowBatch]:
    """Rows spread over a corpus, in few places where each place costs much."""
    grain, is_local = corpus.grain(), corpus.folder.asks_cheaply
    if grain.mapped or grain.in_ranges or (is_local and grain.num_blocks > 1):
        yield from sample(corpus, _SAMPLE_TOKENS, seed=0)
        return
    shards = spread_shards(corpus, _LOCAL_SHARDS if is_local else _REMOTE_SHARDS)
    for shard in shards:
        start, stop = corpus.shard_row_starts[shard : shard + 2].tolist()
        ends = np.cumsum(corpus.row_lengths(start, stop))
        fitting = int(np.searchsorted(ends, _SAMPLE_TOKENS // len(shards), side="right"))
        yield from corpus.batches(start, start + fitting)


def _pieces(batch: RowBatch, spans: Spans | None, marks: Marks, *, may_be_rests: bool) -> list[Piece]:
    """Some documents of a batch whose begin is known, or else rows, without the marks at their ends."""
    starts, stops, ends = batch.offsets[:-1], batch.offsets[1:], np.zeros(len(batch), np.bool_)
    if spans is not None:
        known = spans.begins
        starts, stops, ends = spans.starts[known], spans.stops[known], spans.ends[known]
        ends = ends | (batch.tokens[stops - 1] == (-1 if marks.eos is None else marks.eos))
    found = []
    for start, stop, is_end in _spread(list(zip(starts.tolist(), stops.tolist(), ends.tolist(), strict=True)), _PIECES):
        end = min(stop, start + _PIECE_TOKENS)
        ids = np.asarray(batch.tokens[start:end], np.int64)
        inner = np.flatnonzero(~np.isin(ids, [mark for mark in marks if mark is not None]))
        if len(inner) > 1:
            # What stands inside of a document is text, whatever its id.
            ids = ids[int(inner[0]) : int(inner[-1]) + 1]
            found.append(
                Piece(ids=ids, has_begin=spans is not None and not may_be_rests, has_end=is_end and end == stop)
            )
    return found


def _windows(corpus: Corpus) -> Iterator[RowBatch]:
    """Windows of the token stream as rows, evenly spread: for a corpus whose rows are too long to be read whole."""
    length = min(_WINDOW_TOKENS, corpus.num_tokens)
    starts = np.linspace(0, corpus.num_tokens - length, _WINDOWS).astype(np.int64)
    tokens = corpus.gather_windows(starts, length)
    yield RowBatch(tokens=tokens.reshape(-1), offsets=np.arange(len(starts) + 1) * length, fields={})


def _spread(items: list[Item], at_most: int) -> list[Item]:
    """Some items, evenly spread, or all."""
    if len(items) <= at_most:
        return items
    return [items[(2 * k + 1) * len(items) // (2 * at_most)] for k in range(at_most)]
