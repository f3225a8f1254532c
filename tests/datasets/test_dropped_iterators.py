"""Iterators that are dropped in a cycle are closed by Python's collector, in whichever thread it runs."""

import gc
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.servers.files import file_server
from tokenyard.corpus import CorpusWriter
from tokenyard.datasets import read_ahead
from tokenyard.datasets.loader import TokenLoader, build_dataloader
from tokenyard.schema import Schema
from tokenyard.storage.cache import DiskCache, Ranks

SECONDS = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(1)
    with CorpusWriter(home / "npy", format="npy", schema=Schema(token_dtype="uint16"), shard_bytes=4_000_000) as writer:
        for row in rng.integers(0, 1 << 16, (16_384, 512), np.uint16):
            writer.write(row)
    return home


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def loader_of(path: str, **loader: Any) -> TokenLoader:
    return build_dataloader(
        {
            "data": {"path": path, "sample": {"mode": "rows"}},
            "order": {"global_batch_size": 16, "block_samples": 256, "lanes": 1, "window_blocks": 1},
            "loader": {"num_threads": 2, **loader},
        },
        0,
        1,
    )


class Collector:
    """Collects once, when a thread of that name next calls what is wrapped."""

    def __init__(self, thread: str) -> None:
        self.may_collect = threading.Event()
        self.has_collected = threading.Event()
        self._thread = thread

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def collecting(*args: Any, **kwargs: Any) -> Any:
            is_mine = threading.current_thread().name.startswith(self._thread)
            if is_mine and self.may_collect.is_set() and not self.has_collected.is_set():
                gc.collect()
                self.has_collected.set()
            return function(*args, **kwargs)

        return collecting


def drop_in_a_cycle(loader: TokenLoader, collector: Collector) -> None:
    class Trainer:
        pass

    held: Any = Trainer()
    held.itself, held.batches = held, iter(loader)
    for _ in range(20):
        next(held.batches)
    collector.may_collect.set()


def until_no_threads_are_left() -> None:
    end = time.monotonic() + SECONDS
    while left := [t.name for t in threading.enumerate() if t.name.startswith("tokenyard")]:
        assert time.monotonic() < end, left
        time.sleep(0.01)


@pytest.mark.usefixtures("no_collector")
def test_a_thread_that_fetches_may_collect_the_iterator_it_fetches_for(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, calls = Collector("tokenyard-fetch"), itertools.count()
    fill_all = collector.wrapped(DiskCache.fill_all)

    def fill_when_it_is_dropped(*args: Any, **kwargs: Any) -> bool:
        if threading.current_thread().name.startswith("tokenyard-fetch") and next(calls) >= 4:  # 20 batches read two
            assert collector.may_collect.wait(SECONDS)
        found: bool = fill_all(*args, **kwargs)
        return found

    monkeypatch.setattr(DiskCache, "fill_all", fill_when_it_is_dropped)
    cache = {"path": str(tmp_path), "bytes": 4_000_000}
    with file_server(made) as server:
        drop_in_a_cycle(loader_of(f"{server.url}/npy", cache=cache), collector)
        assert collector.has_collected.wait(SECONDS)
        until_no_threads_are_left()
        assert Ranks(tmp_path).living() == []
        assert sum(len(batch["sample_ids"]) for batch in loader_of(f"{server.url}/npy", cache=cache)) == 16_384


@pytest.mark.usefixtures("no_collector")
def test_a_thread_that_reads_ahead_may_collect_the_iterator_it_reads_for(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector("tokenyard-read-ahead")
    ask = collector.wrapped(read_ahead._ask)

    def ask_when_it_is_dropped(*args: Any) -> None:
        assert collector.may_collect.wait(SECONDS)
        ask(*args)

    monkeypatch.setattr(read_ahead, "_ask", ask_when_it_is_dropped)
    drop_in_a_cycle(loader_of(str(made / "npy")), collector)
    assert collector.has_collected.wait(SECONDS)
    until_no_threads_are_left()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("num_threads", [0, 2])
def test_an_error_that_is_held_holds_no_thread(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch, num_threads: int
) -> None:
    with file_server(made) as server:
        loader = loader_of(
            f"{server.url}/npy", cache={"path": str(tmp_path), "bytes": 4_000_000}, num_threads=num_threads
        )
        batches = iter(loader)
        for _ in range(20):
            next(batches)
        monkeypatch.setattr(loader.dataset, "micro_batch", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError) as held:
            list(batches)
        until_no_threads_are_left()
    assert held.value.__traceback__ is not None
