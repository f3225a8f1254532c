"""Corpora read by maps and by ranges: the same rows, windows and batches, in blocks of any size."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenyard
from tests.corpora import FORMATS, random_rows, write_corpus
from tokenyard.corpus import open_corpus
from tokenyard.datasets.loader import TokenLoader
from tokenyard.errors import ConfigError, DataError
from tokenyard.formats.shared import blocks
from tokenyard.rows import RowBatch
from tokenyard.testing.compare import assert_same_rows

RAW = ["npy", "mds", "webdataset"]
SEQ_LEN = 16


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("corpora")
    rows = random_rows(seed=3, num_rows=200, longest=40)
    masks = [[(t + i) % 2 for i, t in enumerate(row)] for row in rows]
    texts = [None if len(row) % 3 == 0 else "ab" * (len(row) % 7) for row in rows]
    for format in FORMATS:
        fields: Any = {"loss_mask": ("uint8[]", masks), "source": ("string?", texts)}
        write_corpus(home / format, rows, format=format, shard_bytes=2000, **fields)
    return home


def test_ranges_are_many_blocks_where_a_map_is_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "RANGE_BYTES", 300)
    for format in RAW:
        mapped, ranges = (open_corpus(home / format, read=mode)._shards.reader(0) for mode in ("mmap", "pread"))
        assert (mapped.mapped, ranges.mapped) == (True, False)
        assert len(mapped.block_rows) == 2 < len(ranges.block_rows)
        assert mapped.extents(0).mapped
        assert not ranges.extents(0).mapped
        assert len(ranges.extents(0).buffer) <= 300 + 80 * 3 * 512  # at most a row more, with its members of a tar


def test_fields_of_a_block_share_the_bytes_that_were_read(home: Path) -> None:
    reader = open_corpus(home / "mds", read="pread")._shards.reader(0)
    tokens = reader.extents(0)
    assert reader.extents(0, "loss_mask").buffer is tokens.buffer


@pytest.mark.parametrize("format", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_mode_gives_the_same(home: Path, monkeypatch: pytest.MonkeyPatch, format: str, data: Any) -> None:
    monkeypatch.setattr(blocks, "RANGE_BYTES", data.draw(st.sampled_from([1, 50, 1000, 1 << 20]), "range bytes"))
    cache_bytes = data.draw(st.sampled_from([0, 500, 1 << 20]), "cache bytes")
    mapped = open_corpus(home / format, read="mmap")
    ranges = open_corpus(home / format, read="pread", cache_bytes=cache_bytes)
    start = data.draw(st.integers(0, len(mapped)))
    stop = data.draw(st.integers(start, len(mapped)))
    assert_same_rows(ranges.batches(start, stop), rows_of(mapped, start, stop))
    rows = np.array(data.draw(st.lists(st.integers(0, len(mapped) - 1), max_size=20)), np.int64)
    begins = np.array(data.draw(st.lists(st.integers(0, mapped.num_tokens - 50), max_size=20)), np.int64)
    for field in ("tokens", "loss_mask"):
        for a, b in zip(mapped.gather_rows(rows, field), ranges.gather_rows(rows, field), strict=True):
            assert np.array_equal(a, b)
        assert np.array_equal(mapped.gather_windows(begins, 50, field), ranges.gather_windows(begins, 50, field))
    for row in rows[:3].tolist():
        assert mapped[row].tolist() == ranges[row].tolist()
        assert mapped.row(row)["source"] == ranges.row(row)["source"]


def rows_of(corpus: tokenyard.Corpus, start: int, stop: int) -> RowBatch:
    """Rows start .. stop as one batch."""
    found = list(corpus.batches(start, stop))
    return RowBatch.concat(found) if found else corpus._shards.reader(0).rows(0, 0)


def loader(path: Path, read: str, **settings: Any) -> TokenLoader:
    return tokenyard.build_dataloader(
        {
            "data": {"path": str(path), "read": read, "sample": {"seq_len": SEQ_LEN, "boundaries": True}},
            "order": {"global_batch_size": 8, "seed": 2, "block_samples": 16},
            "loader": settings,
        },
        rank=0,
        world_size=1,
    )


def batches(found: Any) -> list[dict[str, Any]]:
    return [{name: tensor.tolist() for name, tensor in batch.items()} for batch in found]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("engine", [{"num_threads": 0}, {"num_threads": 3}], ids=str)
def test_batches_and_state_are_the_same_for_every_mode(
    home: Path, monkeypatch: pytest.MonkeyPatch, format: str, engine: dict[str, Any]
) -> None:
    monkeypatch.setattr(blocks, "RANGE_BYTES", 400)
    loaders = {mode: loader(home / format, mode, **engine) for mode in ("mmap", "pread", "auto")}
    expected = batches(loaders["mmap"])
    assert len(expected) > 5
    for mode in ("pread", "auto"):
        assert batches(loaders[mode]) == expected
        assert loaders[mode].state_dict() == loaders["mmap"].state_dict()


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_worker_processes_read_by_ranges(home: Path, start: str) -> None:
    found = loader(home / "mds", "pread", num_workers=2, multiprocessing_context=start)
    assert batches(found) == batches(loader(home / "mds", "mmap", num_threads=0))


def test_each_source_of_a_mixture_has_its_mode(home: Path) -> None:
    sources = [
        {"path": str(home / "npy"), "weight": 1, "read": "pread"},
        {"path": str(home / "mds"), "weight": 1, "read": "mmap"},
    ]
    write_corpus(home / "other", random_rows(seed=9, num_rows=50, longest=40), format="mds")
    sources[1]["path"] = str(home / "other")
    found = tokenyard.build_dataloader(
        {"data": {"sources": sources, "sample": {"seq_len": 8}}, "order": {"global_batch_size": 4, "epoch_samples": 8}},
        rank=0,
        world_size=1,
    )
    assert [corpus.folder.read_mode for corpus in found.dataset.corpora] == ["pread", "mmap"]


@pytest.mark.parametrize("format", RAW)
def test_a_file_that_is_cut_after_opening_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setattr(blocks, "RANGE_BYTES", 500)
    corpus = write_corpus(tmp_path / "corpus", random_rows(seed=1, num_rows=90, longest=40), format=format)
    ranges = open_corpus(tmp_path / "corpus", read="pread", cache_bytes=0)
    assert ranges[3].tolist() == corpus[3].tolist()
    file = corpus.manifest.shards[0].files[0]
    os.truncate(tmp_path / "corpus" / file.name, file.bytes - 900)
    with pytest.raises(
        DataError, match=f"{file.name}: {file.bytes - 900} bytes, expected {file.bytes}; the file was cut"
    ):
        ranges[80]


def test_an_unknown_mode_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="read: expected auto, mmap or pread, found 'fast'"):
        open_corpus(home / "npy", read="fast")  # type: ignore[arg-type]


def test_indexes_of_many_rows_are_mapped_and_counted_as_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenyard.corpus.shards._MAPPED_INDEX_BYTES", 1)
    write_corpus(tmp_path / "corpus", random_rows(seed=1, num_rows=90, longest=40), format="mds")
    mapped, read = open_corpus(tmp_path / "corpus", read="mmap"), open_corpus(tmp_path / "corpus", read="pread")
    # The checksum of its only cell is kept as two numbers, as every array that is even.
    assert mapped._shards.reader(0).index.memory_bytes == 8
    assert read._shards.reader(0).index.memory_bytes == 8 * (91 + 90 + 1)
    assert mapped.row_lengths().tolist() == read.row_lengths().tolist()
    assert ".idx" in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("format", ["npy", "mds", "webdataset", "parquet"])
@pytest.mark.parametrize("stored", ["float32", "float64"])
def test_fields_of_floats_are_cast_as_numbers(tmp_path: Path, format: str, stored: str) -> None:
    schema = tokenyard.Schema(token_dtype="uint16", fields={"weight": f"{stored}[]"})
    with tokenyard.CorpusWriter(tmp_path, format=format, schema=schema) as writer:
        writer.write([1, 2], weight=[1.5, -2.0])
        writer.write([3], weight=[7.0])
    corpus = tokenyard.open_corpus(tmp_path)
    assert corpus.gather_rows(np.array([1, 0]), "weight", np.int64)[0].tolist() == [7, 1, -2]
    assert corpus.gather_windows(np.array([0]), 3, "weight", np.int64).tolist() == [[1, -2, 7]]
    assert corpus.gather_rows(np.array([0]), "weight")[0].tolist() == [1.5, -2.0]


@pytest.mark.parametrize("format", ["npy", "mds", "webdataset"])
@pytest.mark.parametrize("mode", ["mmap", "pread"])
def test_a_corpus_that_took_the_place_of_another_is_read(tmp_path: Path, format: str, mode: str) -> None:
    for first in (0, 1000):
        schema = tokenyard.Schema(token_dtype="uint16")
        with tokenyard.CorpusWriter(tmp_path / "c", format=format, schema=schema, overwrite=True) as writer:
            writer.write(range(first, first + 4))
        corpus = tokenyard.open_corpus(tmp_path / "c", read=mode)
        assert corpus.gather_rows(np.array([0]))[0].tolist() == list(range(first, first + 4))
        assert corpus[0].tolist() == list(range(first, first + 4))
