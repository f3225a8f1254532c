"""Where documents begin and end in rows, and which of their ids are marks, counted over batches of rows.

Rows of packed corpora cut documents, so that of those at a row's ends only one end is known to be a document's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.corpus.places import INDEX_JOB
from tokenyard.looking.rows import lengths_field
from tokenyard.rows import RowBatch

Int64Array = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Spans(NamedTuple):
    """Documents in the flat tokens of a batch, none empty: int64[n] first tokens and ends, and which of both are known.

    ``begins``: bool[n], whether a document begins there, and doesn't go on from the row before. ``ends``: likewise.
    """

    starts: Int64Array
    stops: Int64Array
    begins: Mask
    ends: Mask


class Marks(NamedTuple):
    """The ids that begin and end documents; None where nobody says."""

    bos: int | None
    eos: int | None


class MarkCounts:
    """What was counted of marks; every number counts documents, but for those inside, which count tokens.

    Attributes:
        begun, with_bos, doubled_bos: documents whose beginning is known; those that begin with BOS; with two of it.
        ended, with_eos, doubled_eos: likewise of ends.
        inner_bos, inner_eos: BOS and EOS inside of documents, where what documents are was not told by EOS.
    """

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.begun = self.with_bos = self.doubled_bos = self.ended = self.with_eos = self.doubled_eos = 0
        self.inner_bos = self.inner_eos = 0

    def add(self, tokens: NDArray[np.integer], spans: Spans) -> None:
        """Count the documents of a batch."""
        starts, stops, (bos, eos) = spans.starts, spans.stops, self.marks
        if not len(starts):
            return
        several = stops - starts > 1
        self.begun += int(spans.begins.sum())
        self.ended += int(spans.ends.sum())
        if bos is not None:
            first = tokens[starts] == bos
            second = several & (tokens[np.minimum(starts + 1, stops - 1)] == bos)
            self.with_bos += int((first & spans.begins).sum())
            self.doubled_bos += int((first & second & spans.begins).sum())
            # At an edge that cut a document, what stands there says nothing.
            self.inner_bos += _count_inside(tokens, starts + 1 + (first & second), stops - 1, bos)
        if eos is not None:
            last = tokens[stops - 1] == eos
            before = several & (tokens[np.maximum(stops - 2, starts)] == eos)
            self.with_eos += int((last & spans.ends).sum())
            self.doubled_eos += int((last & before & spans.ends & (stops - starts > 2)).sum())
            self.inner_eos += _count_inside(tokens, starts + 1, stops - 1 - (last & before), eos)


def may_be_rests(corpus: Corpus) -> bool:
    """Whether what stands inside of rows may be the rest of a document longer than a row, laid where it fits."""
    return corpus.layout.pad_token_id is not None


def documents_of(corpus: Corpus, batch: RowBatch, eos: int | None) -> Spans | None:
    """Return the documents of a batch: rows, what packed rows carry the lengths of, or what EOS ends; None if unknown.

    Rows of a corpus that others made are taken for documents unless all are of one length.
    """
    starts, stops = batch.offsets[:-1], batch.offsets[1:]
    is_packed = corpus.layout.kind == "packed"
    if not is_packed and corpus.manifest.provenance.get("job") in (None, INDEX_JOB):
        is_packed = len(batch) > 1 and int(np.ptp(batch.lengths)) == 0
    if not is_packed:
        return _spans(starts, stops, np.ones(len(batch), np.bool_), np.ones(len(batch), np.bool_))
    if (field := lengths_field(corpus)) is not None:
        return _by_lengths(corpus, batch, field)
    if eos is None:
        return None
    after_eos = np.flatnonzero(batch.tokens == eos) + 1
    cuts = np.unique(np.concatenate([batch.offsets, after_eos]))
    inner = ~np.isin(cuts[:-1], batch.offsets)
    return _spans(cuts[:-1], cuts[1:], inner, np.zeros(len(inner), np.bool_))


def _by_lengths(corpus: Corpus, batch: RowBatch, field: str) -> Spans:
    told = batch.fields[field]
    assert told.offsets is not None  # it is a list
    lengths = np.asarray(told.values, np.int64)
    rows = np.repeat(np.arange(len(batch)), np.diff(told.offsets))
    before = np.concatenate([[0], np.cumsum(lengths)])
    starts = batch.offsets[rows] + before[:-1] - before[told.offsets[rows]]
    stops = np.minimum(starts + lengths, batch.offsets[rows + 1])
    is_padded = (stops < batch.offsets[rows + 1]) & may_be_rests(corpus)
    return _spans(starts, stops, starts > batch.offsets[rows], (stops < batch.offsets[rows + 1]) | is_padded)


def _spans(starts: Int64Array, stops: Int64Array, begins: Mask, ends: Mask) -> Spans:
    some = stops > starts
    return Spans(starts[some], stops[some], begins[some], ends[some])


def _count_inside(tokens: NDArray[np.integer], starts: Int64Array, stops: Int64Array, number: int) -> int:
    """How often an id stands in some stretches of the tokens."""
    until = np.concatenate([[0], np.cumsum(tokens == number)])
    return int((until[np.maximum(stops, starts)] - until[starts]).sum())
