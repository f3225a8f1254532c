"""Two corpora compared whatever the order of their rows: as many of each row in one as in the other."""

from __future__ import annotations

from tokenyard.converters.row_sums import sum_of_corpus
from tokenyard.converters.verify.against import differing_fields
from tokenyard.converters.verify.meter import Meter
from tokenyard.converters.verify.report import Problem
from tokenyard.converters.workers import Workers
from tokenyard.corpus import Corpus
from tokenyard.errors import DataError, StorageError


def compare_unordered(corpus: Corpus, other: Corpus, num_workers: int, meter: Meter) -> list[Problem]:
    """How the rows of two corpora differ, both read as a whole; empty where they are the same, in any order."""
    if found := differing_fields(corpus, other):
        return _told(other, found)
    try:
        mine = sum_of_corpus(corpus, Workers(num_workers=num_workers))
        theirs = sum_of_corpus(other, Workers(num_workers=num_workers))
    except (DataError, StorageError) as e:
        return [Problem(message=f"not compared with {other.path}: {e}", is_damage=False)]
    meter.add(theirs.num_rows, other.num_tokens)
    if mine.num_rows != theirs.num_rows:
        return _told(other, [f"{mine.num_rows} rows here, {theirs.num_rows} rows there"])
    if mine != theirs:
        return _told(
            other, [f"as many rows, but not the same ones: their digests add up to {mine} here, {theirs} there"]
        )
    return []


def _told(other: Corpus, messages: list[str]) -> list[Problem]:
    return [Problem(message=f"differs from {other.path}: {message}", is_damage=False) for message in messages]
