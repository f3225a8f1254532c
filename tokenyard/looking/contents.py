"""All that a page tells of one corpus, gathered: totals, lengths, what a sample of rows holds, rows to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.looking.counting import Counts, count, sample
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.lengths import RowLengths, row_lengths, shards_to_index, spread_shards
from tokenyard.looking.rows import marks, show_row
from tokenyard.looking.shown import ShownRow

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LookSettings:
    """How much is looked at.

    Attributes:
        tokens: tokens read to count ids and padding; with ``full`` all are.
        full: whether all rows and all row indexes are read.
        seed: of which rows are sampled and shown.
        rows: rows that are shown.
        row_tokens: tokens shown of each.
    """

    tokens: int = 1 << 22
    full: bool = False
    seed: int = 0
    rows: int = 6
    row_tokens: int = 240


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What is in a corpus.

    Attributes:
        corpus: which.
        name: how it was named.
        lengths: of its rows, or those of some shards.
        counts: of all rows or of a sample.
        special: names of ids that are no text.
        shard_bytes: int64[shards].
        rows: some, to look at.
        decoder: gives the text of ids, if there is one.
    """

    corpus: Corpus
    name: str
    lengths: RowLengths
    counts: Counts
    special: Mapping[int, str]
    shard_bytes: Int64Array
    rows: tuple[ShownRow, ...]
    decoder: Decoder | None

    @property
    def is_whole(self) -> bool:
        """Whether all rows were counted."""
        return self.counts.num_rows == len(self.corpus)

    @property
    def told(self) -> str:
        """What was counted, in words."""
        some = f"{self.counts.num_tokens:,} tokens of {self.counts.num_rows:,} rows"
        return f"all {some}" if self.is_whole else f"{some}, a sample of {self.corpus.num_tokens:,} tokens"

    def named(self, number: int) -> str | None:
        """What an id stands for as text, its edges kept; None where nobody knows."""
        if self.decoder is None:
            return None
        ((_, text),) = self.decoder.pieces([number])
        return text


def look_into(corpus: Corpus, name: str, settings: LookSettings, decoder: Decoder | None) -> Contents:
    """Gather what is in a corpus. Raises DataError, StorageError."""
    special = marks(corpus, decoder)
    indexed = None if settings.full else shards_to_index(corpus)
    batches = corpus.batches() if settings.full else sample(corpus, settings.tokens, settings.seed)
    return Contents(
        corpus=corpus,
        name=name,
        lengths=row_lengths(corpus, spread_shards(corpus, indexed)),
        counts=count(corpus, batches),
        special=special,
        shard_bytes=corpus.manifest.bytes_of_shards,
        rows=tuple(
            show_row(corpus, row, max_tokens=settings.row_tokens, decoder=decoder, special=special, at_edge=True)
            for row in _some_rows(corpus, settings)
        ),
        decoder=decoder,
    )


def _some_rows(corpus: Corpus, settings: LookSettings) -> list[int]:
    """The first row, and others at random, evenly spread; empty rows are passed over where others are near."""
    wanted = min(settings.rows, len(corpus))
    rng = np.random.Generator(np.random.Philox(settings.seed))
    edges = [len(corpus) * k // max(1, wanted) for k in range(wanted + 1)]
    found = []
    for low, high in pairwise(edges):
        row = int(rng.integers(low, high)) if low else 0
        near = corpus.row_lengths(row, min(high, row + 100))
        found.append(row + int(np.argmax(near > 0)))
    return found
