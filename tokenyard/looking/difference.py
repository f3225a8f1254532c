"""Two corpora compared: what their manifests say, and the first row that differs, as far as it was looked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenyard.converters.verify.against import difference
from tokenyard.corpus import Corpus
from tokenyard.rows import RowBatch

#: Rows compared at a time.
_ROWS = 1024


@dataclass(frozen=True, kw_only=True)
class FirstDifference:
    """What comparing rows gave.

    Attributes:
        row: the first row that differs; None where none was found.
        how: how it differs, in words.
        compared: rows that were compared, and are equal, before it.
        of_rows: rows that both have.
        by_digest: whether equal digests said it, and no row was read.
    """

    row: int | None
    how: str | None
    compared: int
    of_rows: int
    by_digest: bool = False

    @property
    def told(self) -> str:
        """It, in a sentence."""
        if self.by_digest:
            return "The content digests are equal: all rows are the same."
        if self.row is not None:
            return f"Row {self.row:,} is the first that differs: {self.how}."
        if self.compared == self.of_rows:
            return f"All {self.of_rows:,} rows are the same."
        return (
            f"The first {self.compared:,} of {self.of_rows:,} rows are the same; the others were not compared "
            "(--full compares all, tokenyard verify --against too, in parallel)."
        )


def first_difference(mine: Corpus, other: Corpus, max_tokens: int | None) -> FirstDifference | None:
    """The first row that differs, among those of the first ``max_tokens`` tokens, or of all. None: not as many rows.

    Fields that both have are compared too. Raises DataError, StorageError.
    """
    if len(mine) != len(other):
        return None
    names = sorted(mine.schema.fields.keys() & other.schema.fields.keys())
    if _digests_say(mine, other, names):
        return FirstDifference(row=None, how=None, compared=0, of_rows=len(mine), by_digest=True)
    row = read = 0
    while row < len(mine):
        stop = min(row + _ROWS, len(mine))
        read += int(mine.row_lengths(row, stop).sum())
        if row and max_tokens is not None and read > max_tokens:
            break
        a, b = (RowBatch.concat(list(corpus.batches(row, stop))) for corpus in (mine, other))
        if (found := _first(a, b, names)) is not None:
            return FirstDifference(row=row + found[0], how=found[1], compared=row + found[0], of_rows=len(mine))
        row = stop
    return FirstDifference(row=None, how=None, compared=row, of_rows=len(mine))


def _digests_say(mine: Corpus, other: Corpus, names: list[str]) -> bool:
    """Whether the digests of both are known, and equal."""
    a, b = mine.manifest.digests, other.manifest.digests
    if a is None or b is None or a.tokens != b.tokens:
        return False
    return all(name in a.fields and a.fields[name] == b.fields.get(name) for name in names)


def _first(mine: RowBatch, other: RowBatch, names: list[str]) -> tuple[int, str] | None:
    if np.array_equal(mine.offsets, other.offsets) and np.array_equal(mine.tokens, other.tokens) and not names:
        return None
    for i in range(len(mine)):
        a, b = mine.row(i), other.row(i)
        for name in ("tokens", *names):
            if (how := difference(name, a[name], b[name])) is not None:
                return i, how
    return None
