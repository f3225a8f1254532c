"""Where documents begin in a batch, and what attention needs to know of it.

The first tokens of documents come as a mask, bool[n, S]; the rest is a few repeats over the documents it marks.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.corpus.runs import split_at
from tokenyard.errors import DataError

Int64Array = NDArray[np.int64]
Mask = NDArray[np.bool_]


def row_starts_in_windows(corpus: Corpus, starts: Int64Array, width: int) -> Mask:
    """Return bool[n, width]: the tokens that are the first of a row, in windows that begin at `starts`.

    Args:
        corpus: whose token stream the windows lie in.
        starts: int64[n], the first token of each window.
        width: tokens of a window.
    """
    mask = np.zeros((len(starts), width), np.bool_)
    if not mask.size:
        return mask
    window, shards, low, high = split_at(corpus.shard_token_starts, starts, starts + width)
    for shard in np.unique(shards).tolist():
        part = np.flatnonzero(shards == shard)
        shard_start = corpus.shard_token_starts[shard]
        # The end of the last row is no start: it belongs to the next shard.
        offsets = corpus.shard_offsets(shard)[:-1]
        first = np.searchsorted(offsets, low[part] - shard_start)
        counts = np.searchsorted(offsets, high[part] - shard_start) - first
        of = np.repeat(window[part], counts)
        row = np.repeat(first, counts) + np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        mask[of, offsets[row] + shard_start - starts[of]] = True
    return mask


def starts_of_lengths(lengths: NDArray[Any], offsets: Int64Array, row_lengths: Int64Array, width: int) -> Mask:
    """Return bool[n, width]: where documents begin in rows that say the length of each of theirs.

    Documents of no length are left out. What a row holds past its last document begins another one.

    Args:
        lengths: lengths of documents, flat.
        offsets: int64[n + 1] into `lengths`: the documents of each row.
        row_lengths: int64[n], the tokens of each row, at most `width`.
        width: columns of the result.

    Raises:
        DataError: the documents of a row are longer than the row; the message counts rows from 0 in this batch.
    """
    lengths = lengths.astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    row = np.repeat(np.arange(len(row_lengths)), np.diff(offsets))
    begins = ends[:-1] - ends[offsets[:-1]][row]
    totals = np.diff(ends[offsets])
    if (totals > row_lengths).any():
        bad = int(np.argmax(totals > row_lengths))
        raise DataError(
            f"row {bad} of the batch: its documents count {totals[bad]} tokens, it holds {row_lengths[bad]}"
        )
    mask = np.zeros((len(row_lengths), width), np.bool_)
    some = lengths > 0
    mask[row[some], begins[some]] = True
    rest = np.flatnonzero(totals < row_lengths)
    mask[rest, totals[rest]] = True
    return mask


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The documents of a batch [n, S] seen as one line of n * S tokens.

    Each sample begins a document, as attention never reaches into another sample.

    Attributes:
        begins: int64[k], the place at which each document begins, strictly increasing from 0.
        lengths: int64[k], its tokens, at least one.
        shape: n and S.
    """

    begins: Int64Array
    lengths: Int64Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, starts: Mask) -> Self:
        """Read the mask of first tokens, bool[n, S]."""
        starts = starts.copy()
        starts[:, :1] = True
        begins = np.flatnonzero(starts)
        return cls(begins=begins, lengths=np.diff(begins, append=starts.size), shape=starts.shape)

    def position_ids(self) -> Int64Array:
        """Return int64[n, S]: the place of each token in its document."""
        positions = np.arange(self.shape[0] * self.shape[1])
        positions -= np.repeat(self.begins, self.lengths)
        return positions.reshape(self.shape)

    def document_ids(self, is_token: Mask | None) -> Int64Array:
        """Return int64[n, S]: the documents of each sample numbered from 0; -1 where `is_token` says padding."""
        sample, place = np.divmod(self.begins, max(1, self.shape[1]))
        numbers = np.arange(len(self.begins)) - np.flatnonzero(place == 0)[sample]
        ids = np.repeat(numbers, self.lengths).reshape(self.shape)
        if is_token is not None:
            ids[~is_token] = -1
        return ids

    def cu_seqlens(self) -> NDArray[np.int32]:
        """Return int32[k + 1], strictly increasing from 0 to n * S."""
        return np.append(self.begins, self.shape[0] * self.shape[1]).astype(np.int32)

    def max_seqlen(self) -> int:
        """Return the tokens of the longest document."""
        return int(self.lengths.max(initial=0))
