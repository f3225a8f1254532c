"""Which rows, shards and documents stretches of a token stream lie in. Reads row indexes and document lengths only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.corpus.ranges import numbered, split_at

Int64Array = NDArray[np.int64]

#: The document of tokens of which nobody knows where documents begin.
UNKNOWN = -1


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Stretches of one document each, none of them empty, in the order of the stretches they are cut from.

    Attributes:
        of: int64[n], the stretch that each is cut from.
        shards: int64[n], the shard it lies in.
        rows: int64[n], the row of the corpus.
        documents: int64[n], the number of the document in its row, 0 where a row is a document; `UNKNOWN` where nobody
            knows.
        starts: int64[n], its first token, counted in the row.
        stops: int64[n], the token after its last.
    """

    of: Int64Array
    shards: Int64Array
    rows: Int64Array
    documents: Int64Array
    starts: Int64Array
    stops: Int64Array

    def take(self, which: Int64Array) -> "Pieces":
        """Return some of them."""
        return Pieces(**{name: values[which] for name, values in vars(self).items()})


def row_ranges(corpus: Corpus, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the first token of each row, counted in the corpus, and the token after its last.

    Args:
        corpus: whose rows they are.
        rows: int64[n], in any order.
    """
    starts, stops = np.empty_like(rows), np.empty_like(rows)
    shards = np.searchsorted(corpus.shard_row_starts, rows, side="right") - 1
    for shard in np.unique(shards).tolist():
        here = np.flatnonzero(shards == shard)
        offsets = corpus.shard_offsets(shard) + corpus.shard_token_starts[shard]
        local = rows[here] - corpus.shard_row_starts[shard]
        starts[here], stops[here] = offsets[local], offsets[local + 1]
    return starts, stops


def pieces_of(corpus: Corpus, starts: Int64Array, stops: Int64Array) -> Pieces:
    """Cut stretches of the token stream where rows and documents begin.

    Documents of packed rows are those that the field of document lengths tells; padding after the last one is left
    out. What a row without padding holds past its last document counts as another one.

    Args:
        corpus: whose stream it is.
        starts: int64[n], the first token of each stretch.
        stops: int64[n], the token after its last; an empty stretch has no pieces.
    """
    some = np.flatnonzero(starts < stops)
    of, shards, low, high = split_at(corpus.shard_token_starts, starts[some], stops[some])
    by_shard = [
        _cut_at_rows(corpus, shard, some[of[part]], low[part], high[part])
        for shard in np.unique(shards).tolist()
        for part in [np.flatnonzero(shards == shard)]
    ]
    pieces = _joined(by_shard)
    if corpus.layout.lengths_field is not None:
        pieces = _cut_at_documents(corpus, corpus.layout.lengths_field, pieces)
    elif corpus.layout.kind == "packed":
        pieces.documents.fill(UNKNOWN)
    return pieces.take(np.lexsort((pieces.starts, pieces.rows, pieces.of)))


def _cut_at_rows(corpus: Corpus, shard: int, of: Int64Array, low: Int64Array, high: Int64Array) -> Pieces:
    offsets = corpus.shard_offsets(shard)
    low, high = low - corpus.shard_token_starts[shard], high - corpus.shard_token_starts[shard]
    # Of rows that begin at one place the last is the one with tokens.
    first = np.searchsorted(offsets, low, side="right") - 1
    counts = np.searchsorted(offsets, high, side="left") - first
    which, rows = numbered(first, counts)
    starts = np.maximum(low[which], offsets[rows]) - offsets[rows]
    stops = np.minimum(high[which], offsets[rows + 1]) - offsets[rows]
    found = Pieces(
        of=of[which],
        shards=np.full(len(rows), shard),
        rows=rows + corpus.shard_row_starts[shard],
        documents=np.zeros(len(rows), np.int64),
        starts=starts,
        stops=stops,
    )
    return found.take(np.flatnonzero(starts < stops))


def _cut_at_documents(corpus: Corpus, lengths_field: str, pieces: Pieces) -> Pieces:
    rows, at = np.unique(pieces.rows, return_inverse=True)
    lengths, offsets = corpus.gather_rows(rows, lengths_field)
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    counts = np.diff(offsets)
    which, place = numbered(offsets[:-1][at], counts[at])
    base = ends[offsets[:-1]][at][which]
    number = place - offsets[:-1][at][which]
    cut_up = Pieces(
        of=pieces.of[which],
        shards=pieces.shards[which],
        rows=pieces.rows[which],
        documents=number,
        starts=np.maximum(pieces.starts[which], ends[place] - base),
        stops=np.minimum(pieces.stops[which], ends[place + 1] - base),
    )
    found = [cut_up.take(np.flatnonzero(cut_up.starts < cut_up.stops))]
    if corpus.layout.pad_token_id is None:
        told = (ends[offsets[1:]] - ends[offsets[:-1]])[at]
        rest = Pieces(**{**vars(pieces), "documents": counts[at], "starts": np.maximum(pieces.starts, told)})
        found.append(rest.take(np.flatnonzero(rest.starts < rest.stops)))
    return _joined(found)


def _joined(parts: list[Pieces]) -> Pieces:
    names = Pieces.__dataclass_fields__
    return Pieces(**{name: np.concatenate([np.empty(0, np.int64), *(vars(p)[name] for p in parts)]) for name in names})
