"""Lengths counted piece by piece say what numpy says of all of them at once."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import random_rows, write_corpus
from tokenyard.looking.lengths import LengthCounts, row_lengths, shards_to_index, spread_shards

LENGTHS = st.lists(st.lists(st.integers(0, 5000), max_size=30), min_size=1, max_size=5)


def counted(parts):
    counts = LengthCounts()
    for part in parts:
        counts.add(np.array(part, np.int64))
    return counts


@given(LENGTHS.filter(lambda parts: any(parts)), st.sampled_from([0.0, 0.05, 0.25, 0.5, 0.95, 1.0]))
def test_quantiles_mean_and_total_are_those_of_numpy(parts, share):
    every = np.concatenate([np.array(part, np.int64) for part in parts])
    counts = counted(parts)
    assert counts.quantile(share) == pytest.approx(np.quantile(every, share))
    assert counts.mean == pytest.approx(every.mean())
    assert (len(counts), counts.total) == (len(every), every.sum())


def test_lengths_that_a_field_can_not_mean_have_a_bin_too():
    found = counted([[-1, 0, 2**62, 2**63 - 1]]).bins()
    assert [(b.low, b.high) for b in found if b.count] == [(0, 0), (2**61 + 1, 2**62), (2**62 + 1, 2**63 - 1)]


@given(LENGTHS)
def test_bins_hold_every_length_once_and_follow_one_another(parts):
    bins = counted(parts).bins()
    every = [length for part in parts for length in part]
    assert [b.count for b in bins] == [sum(b.low <= length <= b.high for length in every) for b in bins]
    assert sum(b.count for b in bins) == len(every)
    assert all(a.high + 1 == b.low for a, b in pairwise(bins))


def test_bins_double_and_empty_rows_have_one_of_their_own():
    bins = counted([[0, 1, 2, 3, 4, 5, 8, 9]]).bins()
    assert [(b.low, b.high, b.count) for b in bins] == [
        (0, 0, 1),
        (1, 1, 1),
        (2, 2, 1),
        (3, 4, 2),
        (5, 8, 2),
        (9, 16, 1),
    ]


def test_of_nothing_all_is_nought():
    counts = LengthCounts()
    assert (len(counts), counts.mean, counts.quantile(0.5), counts.bins()) == (0, 0, 0, [])


def test_some_shards_are_spread_over_the_corpus_and_said_so(tmp_path):
    corpus = write_corpus(tmp_path / "c", random_rows(1, 80, 30), shard_bytes=200)
    shards = spread_shards(corpus, 3)
    count = len(corpus.manifest.shards)
    assert len(shards) == 3
    assert shards[0] < count / 3 < shards[1] < 2 * count / 3 < shards[2] < count
    found = row_lengths(corpus, shards)
    assert found.told == f"3 of {count} shards, evenly spread"
    assert not found.is_whole
    assert len(found.counts) == sum(int(corpus.manifest.rows_of_shards[k]) for k in shards)
    assert spread_shards(corpus, None) == list(range(count)) == spread_shards(corpus, count + 1)
    assert shards_to_index(corpus) == 64
