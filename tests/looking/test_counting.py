"""What rows hold, counted in all of them, in some shards, or in a sample with a bound and a seed."""

from dataclasses import replace

import numpy as np
import pytest

from tests.corpora import FORMATS, random_rows, write_corpus
from tests.runs import packed_rows
from tokenyard.looking import counting
from tokenyard.looking.counting import count, of_shards, sample
from tokenyard.manifest import Layout

ROWS = random_rows(3, 200, 40)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("counting") / "c", ROWS, shard_bytes=900)


def test_all_rows_count_as_numpy_counts_them(corpus):
    found = count(corpus, corpus.batches(max_tokens=300))
    every = np.concatenate([np.array(row, np.int64) for row in ROWS])
    assert (found.num_rows, found.num_tokens) == (len(ROWS), len(every))
    assert np.array_equal(found.ids, np.bincount(every))
    values, counts = np.unique(every, return_counts=True)
    assert found.most_frequent(3) == values[np.lexsort((values, -counts))][:3].tolist()
    assert found.share(int(values[0])) == counts[0] / len(every)
    assert found.of(-1) == found.of(10**9) == 0
    assert found.fill is None


def test_some_shards_are_read_whole(corpus):
    found = count(corpus, of_shards(corpus, [1, 4]))
    assert found.num_tokens == sum(int(corpus.manifest.tokens_of_shards[k]) for k in (1, 4))


@pytest.mark.parametrize("format", FORMATS)
def test_a_sample_has_a_bound_and_is_the_same_for_a_seed_in_every_format(corpus, tmp_path, format):
    other = write_corpus(tmp_path / "c", ROWS, format=format, shard_bytes=5000)
    taken = [count(c, sample(c, 1500, seed)) for c, seed in ((corpus, 7), (other, 7), (other, 8))]
    assert all(1000 < found.num_tokens <= 1500 for found in taken)
    assert np.array_equal(taken[0].ids, taken[1].ids)
    assert not np.array_equal(taken[1].ids, taken[2].ids)


def test_a_sample_of_a_small_corpus_is_all_of_it(corpus):
    assert count(corpus, sample(corpus, corpus.num_tokens, 0)).num_rows == len(ROWS)


def test_rows_longer_than_the_bound_are_left_out(tmp_path):
    long = write_corpus(tmp_path / "c", [[1] * 5000, [2] * 5000])
    found = count(long, sample(long, 100, 0))
    assert (found.num_rows, found.num_tokens, found.share(1)) == (0, 0, 0)


def test_ids_past_any_vocabulary_cost_no_memory(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[5, 2**32 - 1, 2**31]], token_dtype="uint32", vocab_size=2**32)
    found = count(corpus, corpus.batches())
    assert (found.beyond, len(found.ids), found.num_tokens) == (2, 6, 3)


@pytest.mark.parametrize("pad", [True, False])
def test_fill_and_waste_are_those_of_the_documents(tmp_path, pad):
    corpus = packed_rows(tmp_path / "c", "npy", pad)
    rows = [corpus.row(i) for i in range(len(corpus))]
    used = [int(row["document_lengths"].sum()) for row in rows]
    fill = count(corpus, corpus.batches()).fill
    assert fill.padding == (sum(12 - n for n in used) if pad else 0)
    assert fill.full_rows == used.count(12)
    assert fill.steps.sum() == len(rows)
    assert fill.steps[-1] == used.count(12)
    assert fill.steps[:10].sum() == sum(n < 6 for n in used)
    assert fill.documents.total == sum(used)


def test_lengths_that_a_manifest_only_promises_are_not_used(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1, 2]], layout=Layout(kind="packed", seq_len=2), what=("string", ["a"]))
    corpus.manifest = replace(corpus.manifest, layout=Layout(kind="packed", seq_len=2, lengths_field="what"))
    assert counting.count(corpus, corpus.batches()).fill is None
