"""Reading ahead: the same requests in the same order, and the system asked for what they will read."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenyard
from tests.corpora import random_rows, write_corpus
from tokenyard.corpus import read_ahead as pages
from tokenyard.datasets.read_ahead import _ask, looking_ahead
from tokenyard.errors import DataError
from tokenyard.storage import Folder, advice

RAW = ["npy", "mds", "webdataset"]
SEQ_LEN = 8


@pytest.fixture(params=RAW)
def loader(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    write_corpus(tmp_path, random_rows(seed=4, num_rows=300, longest=40), format=request.param, shard_bytes=3000)
    return tokenyard.build_dataloader(
        {
            "data": {"path": str(tmp_path), "sample": {"seq_len": SEQ_LEN}},
            "order": {"global_batch_size": 4, "block_samples": 16},
            "loader": {"num_threads": 2},
        },
        rank=0,
        world_size=1,
    )


def requests(loader: Any) -> Any:
    return loader.sampler.requests(loader.sampler.begin())


def batched(items: list[Any], size: int) -> list[list[Any]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def test_the_system_is_asked_while_requests_go_by(loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(pages, "share_in_memory", lambda address, size: 0.5)
    monkeypatch.setattr(pages, "will_need", lambda address, size: done.set())
    ahead = looking_ahead(requests(loader), loader.dataset)
    for _ in range(16):
        next(ahead)
    assert done.wait(30)
    ahead.close()  # type: ignore[attr-defined]
    assert not any(thread.name.startswith("tokenyard-read-ahead") for thread in threading.enumerate())


def test_requests_come_as_they_were_made(loader: Any) -> None:
    found = list(looking_ahead(requests(loader), loader.dataset))
    loader.set_epoch(0)
    expected = list(requests(loader))
    assert len(expected) > 100
    assert [(r.step, r.number, r.step_done) for r in found] == [(r.step, r.number, r.step_done) for r in expected]
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a.micro_batch.sample_ids, b.micro_batch.sample_ids)


def test_what_making_requests_raises_comes_in_its_turn(loader: Any) -> None:
    def failing() -> Any:
        for i, request in enumerate(requests(loader)):
            if i == 20:
                raise DataError("here")
            yield request

    found = []
    with pytest.raises(DataError, match="here"):
        found += looking_ahead(failing(), loader.dataset)
    ahead = looking_ahead(failing(), loader.dataset)
    for _ in range(20):
        next(ahead)
    with pytest.raises(DataError, match="here"):
        next(ahead)


def test_all_that_is_read_was_asked_for_before(loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(pages, "share_in_memory", lambda address, size: 0.5)
    monkeypatch.setattr(pages, "will_need", lambda address, size: asked.append((address, address + size)))
    monkeypatch.setattr(pages, "UNIT_BYTES", 256)
    reader = loader.dataset.corpus.read_ahead()
    for batches in batched([request.micro_batch for request in requests(loader)], 16):
        _ask(batches, loader.dataset, [reader])
    shards = loader.dataset.corpus._shards
    missed = 0
    for shard in range(len(shards.row_starts) - 1):
        extents = shards.extents(shard, 0, "tokens")
        for start, length in zip(extents.starts.tolist(), extents.lengths.tolist(), strict=True):
            first = extents.address + start
            missed += bool(length) and not any(a <= first < b for a, b in asked)
    # The end of the stream fills no batch.
    assert missed <= 3
    assert asked
    assert len(set(asked)) == len(asked)


def test_nothing_more_is_looked_at_once_all_is_found_in_memory(loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "UNIT_BYTES", 64)
    monkeypatch.setattr(pages, "_ENOUGH", 5)
    monkeypatch.setattr(pages, "share_in_memory", lambda address, size: 1.0)
    monkeypatch.setattr(pages, "will_need", lambda address, size: pytest.fail("asked for what is there"))
    reader = loader.dataset.corpus.read_ahead()
    for i in range(50):
        reader.tokens(np.array([i * 40]), np.array([i * 40 + SEQ_LEN]))
    assert reader.is_needless
    looked_at = reader.num_looked_at
    reader.tokens(np.array([2500]), np.array([2500 + SEQ_LEN]))
    assert reader.num_looked_at == looked_at < 30


def test_a_small_corpus_is_looked_at_once(loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "share_in_memory", lambda address, size: 1.0)
    reader = loader.dataset.corpus.read_ahead()
    assert not reader.is_needless
    reader.tokens(np.array([0]), np.array([SEQ_LEN]))
    assert reader.is_needless


def test_shards_that_are_not_mapped_are_soon_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_ENOUGH", 5)
    monkeypatch.setattr(pages, "UNIT_BYTES", 64)
    monkeypatch.setattr(pages, "will_need", lambda address, size: pytest.fail("asked for what was decoded"))
    corpus = write_corpus(tmp_path, random_rows(seed=4, num_rows=300, longest=40), format="parquet")
    reader = corpus.read_ahead()
    for i in range(5):
        assert not reader.is_needless
        reader.tokens(np.array([i]), np.array([i + 9]))
    assert reader.is_needless
    assert corpus._shards.memory_bytes == 0


def test_units_that_were_forgotten_are_asked_for_again(loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "UNIT_BYTES", 64)
    monkeypatch.setattr(pages, "_MAX_KNOWN", 2)
    monkeypatch.setattr(pages, "share_in_memory", lambda address, size: 0.0)
    asked: list[int] = []
    monkeypatch.setattr(pages, "will_need", lambda address, size: asked.append(address))
    reader = loader.dataset.corpus.read_ahead()
    for at in (0, 0, 900, 1800, 0):
        reader.tokens(np.array([at]), np.array([at + 1]))
    assert len(asked) >= 4
    assert asked[0] == asked[-1]


def test_the_system_takes_the_hints(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    data = Folder(tmp_path).map("file")
    address = data.__array_interface__["data"][0]
    assert pages.share_in_memory(address, len(data)) == 1.0
    pages.will_need(address + 5, len(data) - 9)
    assert pages.share_in_memory(address, 0) == 1.0


def test_where_the_system_hides_what_is_in_memory_all_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "corpus"
    write_corpus(path, random_rows(0, 50, 20))
    monkeypatch.setattr(advice.os, "geteuid", lambda: 12345)
    monkeypatch.setattr(advice.os, "access", lambda *a: False)
    asked: list[int] = []
    monkeypatch.setattr(pages, "will_need", lambda address, size: asked.append(size))
    reader = tokenyard.open_corpus(path).read_ahead()
    reader.tokens(np.array([0]), np.array([10]))
    assert len(asked) == 1
    assert reader.num_in_memory == 0
    assert not advice.tells_residency(path / "absent")
