"""Shuffling on disk: which row comes where, the proof, parts, and what is left behind."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.converters.test_convert import FORMATS, tree, write
from tests.corpora import random_rows, write_corpus
from tokenyard.converters import shuffle as shuffling
from tokenyard.converters.convert import convert, plan_convert
from tokenyard.converters.pack import pack
from tokenyard.converters.row_sums import row_digests
from tokenyard.converters.run import run_job, run_part
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.datasets.order import place, resolve
from tokenyard.errors import ConfigError, VerificationError

SMALL = {"shard_bytes": 20_000}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("shuffled") / "source", "parquet", num_rows=5000, shard_bytes=30_000)


def named_rows_of(corpus: Corpus) -> list[dict[str, Any]]:
    return [
        {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in batch.row(i).items()}
        for batch in corpus.batches()
        for i in range(len(batch))
    ]


def rows_of(corpus: Corpus) -> list[list[Any]]:
    return [list(row.values()) for row in named_rows_of(corpus)]


def sorted_row_digests(corpus: Corpus) -> list[bytes]:
    return sorted(digest for batch in corpus.batches() for digest in row_digests(batch))


@pytest.mark.parametrize("to", FORMATS)
def test_the_same_rows_come_in_another_order_in_every_format(source: Path, tmp_path: Path, to: str) -> None:
    report = convert(source, tmp_path / "out", to=to, shuffle=7, **SMALL)
    before, after = open_corpus(source), open_corpus(tmp_path / "out")
    assert sorted_row_digests(after) == sorted_row_digests(before)
    assert after.schema == before.schema
    assert (report.source_digest, report.digest) == (before.digest, after.digest)
    assert after.digest != before.digest
    assert report.rows_digest is not None
    assert report.rows_digest.startswith("rows1:")
    assert not (tmp_path / "out" / ".tokenyard" / "job").exists()


def test_rows_come_in_the_order_of_a_global_shuffle_with_that_seed(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", to="npy", shuffle=42, **SMALL)
    before, after = rows_of(open_corpus(source)), rows_of(open_corpus(tmp_path / "out"))
    order = resolve(num_samples=len(before), global_batch_size=1, seed=42, shuffle="global")
    assert after == [before[i] for i in place(order, len(before), 0, np.arange(len(before)))]


@settings(max_examples=12)
@given(num_rows=st.integers(0, 3000), seed=st.integers(0, 2**64 - 1), shard_bytes=st.sampled_from([500, 9000, 1 << 20]))
def test_any_rows_and_shards_give_the_same_rows_for_one_seed(
    tmp_path_factory: pytest.TempPathFactory, num_rows: int, seed: int, shard_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    corpus = write_corpus(folder / "source", random_rows(seed=1, num_rows=num_rows, longest=6), shard_bytes=4000)
    digests = {
        convert(corpus, folder / str(size), to=to, shuffle=seed, shard_bytes=size).digest
        for to, size in (("npy", shard_bytes), ("jsonl", 5000))
    }
    assert len(digests) == 1
    assert sorted_row_digests(open_corpus(folder / "5000")) == sorted_row_digests(corpus)
    shutil.rmtree(folder)


def test_the_bytes_do_not_depend_on_workers_or_parts(source: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"to": "mds", "shuffle": 3, **SMALL}
    convert(source, tmp_path / "one", **settings)
    convert(source, tmp_path / "two", **settings, num_workers=2)
    job = plan_convert(source, **settings)
    first = [run_part(job, tmp_path / "parts", (k, 3)) for k in (2, 3, 1)]
    assert all(report.num_waiting_tasks for report in first[:2])
    with pytest.raises(ConfigError, match="tasks are not done yet"):
        convert(source, tmp_path / "parts", **settings, finish=True)
    second = [run_part(job, tmp_path / "parts", (k, 3)) for k in (1, 2, 3)]
    assert [report.num_waiting_tasks for report in second] == [0, 0, 0]
    assert second[-1].num_open_tasks == 0
    convert(source, tmp_path / "parts", **settings, finish=True)
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(tmp_path / "parts")


def test_document_lengths_of_packed_rows_travel_along(tmp_path: Path) -> None:
    documents = write_corpus(tmp_path / "documents", random_rows(seed=2, num_rows=4000, longest=9))
    pack(documents, tmp_path / "packed", seq_len=4)
    convert(tmp_path / "packed", tmp_path / "out", to="mds", shuffle=1)
    before, after = open_corpus(tmp_path / "packed"), open_corpus(tmp_path / "out")
    assert after.layout == before.layout
    assert sorted_row_digests(after) == sorted_row_digests(before)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True])
def test_what_is_no_seed_is_refused(source: Path, tmp_path: Path, seed: Any) -> None:
    with pytest.raises(ConfigError, match=r"shuffle \(a seed\): expected an int"):
        convert(source, tmp_path / "out", to="npy", shuffle=seed)


def test_a_row_that_is_lost_on_the_way_is_noticed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubled(batch: Any, rows: Any) -> Any:
        rows = rows.copy()
        rows[0] = rows[-1]
        return taken(batch, rows)

    taken = shuffling.take
    monkeypatch.setattr(shuffling, "take", doubled)
    with pytest.raises(VerificationError, match=r"5000 rows of digest rows1:\w+ were read, but 5000 rows of digest"):
        convert(source, tmp_path / "out", to="npy", shuffle=1, **SMALL)


def test_a_source_that_is_not_what_its_manifest_promises_is_told(source: Path, tmp_path: Path) -> None:
    corpus = open_corpus(source)
    assert corpus.manifest.digests is not None
    corpus.manifest = replace(corpus.manifest, digests=replace(corpus.manifest.digests, tokens="ty1:" + "0" * 64))
    with pytest.raises(VerificationError, match="don't have the digest that its manifest promises"):
        run_job(plan_convert(corpus, to="npy", shuffle=1, **SMALL), tmp_path / "out")
