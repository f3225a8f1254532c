"""The rows that are measured."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import random_rows, write_corpus
from tokenyard.bench.sample import STRETCHES, take_sample
from tokenyard.bench.settings import BenchSettings
from tokenyard.corpus import open_corpus
from tokenyard.errors import ConfigError, VerificationError
from tokenyard.manifest import Layout


def rows_of(path):
    corpus = open_corpus(path)
    return [corpus[i].tolist() for i in range(len(corpus))]


@pytest.mark.parametrize("format", ["npy", "mds", "parquet", "csv"])
def test_a_small_corpus_is_taken_whole_with_its_fields_and_its_digest(tmp_path, format):
    rows = random_rows(seed=1, num_rows=30, longest=20)
    source = write_corpus(tmp_path / "a", rows, format=format, text=("string", [f"row {i}" for i in range(30)]))
    sample = take_sample(BenchSettings(source=tmp_path / "a"), tmp_path / "sample")
    assert (sample.is_whole, sample.digest, sample.num_rows) == (True, source.digest, 30)
    assert open_corpus(sample.path).row(7)["text"] == "row 7"
    assert sample.raw_bytes == 2 * source.num_tokens + sum(len(f"row {i}") for i in range(30))
    assert (sample.source_format, sample.of_tokens) == (format, source.num_tokens)


def test_packed_rows_stay_packed_rows(tmp_path):
    rows = np.arange(48).reshape(4, 12).tolist()
    write_corpus(tmp_path / "a", rows, layout=Layout(kind="packed", seq_len=12))
    sample = take_sample(BenchSettings(source=tmp_path / "a"), tmp_path / "sample")
    assert (sample.mode, sample.row_length, sample.layout) == ("rows", 12, "packed")


@given(seed=st.integers(0, 99), num_rows=st.integers(1, 400), longest=st.integers(1, 40), limit=st.integers(50, 4000))
def test_a_sample_holds_rows_of_the_source_in_their_order_within_its_bytes(
    tmp_path_factory, seed, num_rows, longest, limit
):
    home = tmp_path_factory.mktemp("sample")
    rows = [[i, *row] for i, row in enumerate(random_rows(seed, num_rows, longest))]
    source = write_corpus(home / "a", rows, shard_bytes=1000)
    sample = take_sample(BenchSettings(source=home / "a", sample_bytes=limit), home / "sample")
    found = rows_of(sample.path)
    numbers = [row[0] for row in found]
    assert all(a < b for a, b in pairwise(numbers))
    assert found == [rows[i] for i in numbers]
    assert sample.is_whole == (2 * source.num_tokens <= limit)
    assert 2 * sample.num_tokens <= limit or sample.num_rows == 1


def test_a_sample_is_spread_evenly_over_a_large_corpus(tmp_path):
    write_corpus(tmp_path / "a", [[i % 60000] * 10 for i in range(6400)], shard_bytes=20_000)
    sample = take_sample(BenchSettings(source=tmp_path / "a", sample_bytes=20 * STRETCHES * 3), tmp_path / "sample")
    numbers = [row[0] for row in rows_of(sample.path)]
    assert numbers == [100 * stretch + i for stretch in range(STRETCHES) for i in range(3)]
    assert not sample.is_whole
    assert sample.of_tokens == 64000


@pytest.mark.parametrize("documents", [False, True])
def test_made_ids_are_the_same_for_the_same_seed(tmp_path, documents):
    settings = BenchSettings(made_tokens=20_000, made_documents=documents, seq_len=100)
    digests = [take_sample(replace(settings, seed=seed), tmp_path / str(i)).digest for i, seed in enumerate((0, 0, 1))]
    assert digests[0] == digests[1] != digests[2]
    lengths = open_corpus(tmp_path / "0").row_lengths()
    assert lengths.sum() == 20_000
    assert set(lengths.tolist()) == {100} if not documents else lengths.std() > 0


def test_rows_that_are_not_what_the_manifest_promises_are_refused(tmp_path):
    corpus = write_corpus(tmp_path / "a", [[1, 2, 3]])
    shard = tmp_path / "a" / corpus.manifest.shards[0].name
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x09")
    with pytest.raises(VerificationError, match=r"its manifest promises ty1:.*; run tokenyard verify on it"):
        take_sample(BenchSettings(source=tmp_path / "a"), tmp_path / "sample")


def test_too_little_to_measure_is_told(tmp_path):
    write_corpus(tmp_path / "a", [[], []])
    with pytest.raises(ConfigError, match="there is nothing to measure in 2 rows without a token"):
        take_sample(BenchSettings(source=tmp_path / "a"), tmp_path / "sample")
    with pytest.raises(ConfigError, match="make: 10 tokens fill no row of 2048; make more"):
        take_sample(BenchSettings(made_tokens=10), tmp_path / "sample")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rounds": 0}, "rounds: expected a whole number from 1 on, found 0"),
        ({"seconds": 0}, "seconds: expected a time above 0, found 0"),
        ({"variants": ()}, "formats: expected one or more to measure, found none"),
    ],
)
def test_settings_that_measure_nothing_are_refused(given, expected):
    with pytest.raises(ConfigError, match=expected):
        BenchSettings(**given)
