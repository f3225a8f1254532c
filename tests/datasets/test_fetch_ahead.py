"""Fetching ahead by itself: whatever threads wait for, the loop and the end of the program come first."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.servers.files import file_server
from tokenyard.corpus import CorpusWriter
from tokenyard.datasets.sampler import Request
from tokenyard.datasets.streaming import fetch_ahead
from tokenyard.datasets.streaming.fetch_ahead import FetchAhead
from tokenyard.errors import StorageError
from tokenyard.schema import Schema
from tokenyard.storage.cache import NEVER

HELD_AT_THE_END = """
import atexit, json, sys, time
# What is registered first is done last.
atexit.register(lambda: print(time.monotonic() - begun))
from tokenyard.datasets.loader import build_dataloader
held = iter(build_dataloader(json.loads(sys.argv[1]), 0, 1))
for _ in range(150):
    next(held)
begun = time.monotonic()
raise ValueError("the loop failed")
"""


def test_a_program_ends_while_an_iterator_is_held_whose_threads_wait_for_room(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    with CorpusWriter(
        tmp_path / "made" / "npy", format="npy", schema=Schema(token_dtype="uint16"), shard_bytes=4_000_000
    ) as writer:
        for row in rng.integers(0, 1 << 16, (16_384, 512), np.uint16):
            writer.write(row)
    with file_server(tmp_path / "made") as server:
        settings = {
            "data": {"path": f"{server.url}/npy", "sample": {"mode": "rows"}},
            "order": {"global_batch_size": 16, "block_samples": 256, "lanes": 1, "window_blocks": 1},
            "loader": {"num_threads": 2, "cache": {"path": str(tmp_path / "cache"), "bytes": 4_000_000}},
        }
        ended = subprocess.run(
            [sys.executable, "-c", HELD_AT_THE_END, json.dumps(settings)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ended.returncode == 1
    # Nothing at the end waits until it gives up waiting, which takes 30 s.
    assert float(ended.stdout) < 20
    assert "the loop failed" in ended.stderr


class Piece(int):
    """A piece of as many bytes, by the number of its tile."""

    num_bytes = 1


class Cache:
    """Has room for what is waited for alone, and loses a tile once, as if others had needed its room."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.held: set[int] = set()
        self.lock = threading.Lock()

    def fetch(self, wanted: Sequence[Any], step: int | None, has_room: Callable[[], None]) -> int | None:
        with self.lock:
            for _, piece in wanted:
                if step is not None and step:
                    return step
                if piece == self.lost:
                    self.lost = -1
                else:
                    self.held.add(piece)
        has_room()
        return None

    def has(self, tile: int) -> bool:
        return tile in self.held


def ahead_of(cache: Cache, steps: int, *, pieces: int = 1, **other: Any) -> FetchAhead:
    """Fetches ahead for as many requests, each at a step of its own for the tile of that number."""
    tiles = SimpleNamespace(
        of=lambda ids, seq_len: np.asarray(ids),
        pieces=lambda tile: [(cache, Piece(tile))] * pieces,
        mean_bytes=lambda tile: 1,
    )
    requests = (
        Request(SimpleNamespace(sample_ids=[step], seq_len=None), step, 0, True, False)  # type: ignore[arg-type]
        for step in range(steps)
    )
    told = {
        "wants": lambda step: None,
        "is_next": lambda step: True,
        "max_bytes": 100,
        "waited": lambda ns: None,
        "note": lambda request: f"at step {request.step}",
    }
    fetch = other.pop("fetch", cache.fetch)
    return FetchAhead(requests, tiles, fetch, lambda step: step, **(told | other))  # type: ignore[arg-type]


def test_a_tile_that_others_evicted_is_fetched_again_while_all_threads_wait_for_room() -> None:
    cache, found = Cache(lost=0), []
    ahead = ahead_of(cache, 100)
    # As many requests are taken as there are threads, and more, before the first one is waited for.
    while ahead._take():
        pass
    loop = threading.Thread(target=lambda: found.extend(ahead.run()), daemon=True)
    loop.start()
    loop.join(60)
    ahead.leave()  # where it hangs, it is not for ever
    assert [request.step for request in found] == list(range(100))
    assert cache.lost == -1


def test_a_tile_that_the_cache_can_not_hold_is_left_to_be_read_without_it() -> None:
    cache = Cache(lost=-1)
    assert [request.step for request in ahead_of(cache, 1, pieces=2, max_bytes=1).run()] == [0]
    assert cache.held == set()


def test_what_another_rank_needs_earlier_has_room_first_and_what_is_waited_for_waits_for_nobody() -> None:
    cache = Cache(lost=-1)
    told: list[int] = []
    asked: list[int | None] = []

    def fetch(wanted: Sequence[Any], step: int | None, has_room: Callable[[], None]) -> int | None:
        asked.append(step)
        return cache.fetch(wanted, None, has_room)

    # Another rank wants room for what it uses at step 10.
    ahead = ahead_of(cache, 20, fetch=fetch, wants=told.append, is_next=lambda step: step < 10)
    assert [request.step for request in ahead.run()] == list(range(20))
    assert all(step is None or step < 10 for step in asked)
    assert asked.count(None) >= 10
    assert set(range(10, 20)) <= set(told)
    assert told[-1] == NEVER


@pytest.mark.parametrize("failures", [1, 2])
def test_what_failed_far_ahead_is_tried_again_when_it_is_needed_and_then_an_error(failures: int) -> None:
    cache, left = Cache(lost=-1), [failures]

    def fetch(wanted: Sequence[Any], step: int | None, has_room: Callable[[], None]) -> int | None:
        if wanted[0][1] == 9 and left[0]:
            left[0] -= 1
            raise StorageError("the store was away")
        return cache.fetch(wanted, None, has_room)

    ahead = ahead_of(cache, 10, fetch=fetch)
    while ahead._take():
        pass
    wait([one.future for coming in ahead._coming for one in coming.tiles])
    requests = ahead.run()
    assert [next(requests).step for _ in range(9)] == list(range(9))
    if failures == 1:
        assert [request.step for request in requests] == [9]
        return
    with pytest.raises(StorageError, match="the store was away") as told:
        next(requests)
    assert told.value.__notes__ == ["at step 9"]


def test_room_is_looked_for_again_when_the_run_is_where_there_may_be_some(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody looks again for want of a call.
    monkeypatch.setattr(fetch_ahead, "_ROOM_SECONDS", 60)
    monkeypatch.setattr(fetch_ahead, "_LOOK_SECONDS", 60)
    attempts: list[tuple[int, int]] = []
    now = [0]
    tried = threading.Event()

    def fetch(wanted: Sequence[Any], step: int | None, has_room: Callable[[], None]) -> int | None:
        tile, at = wanted[0][1], now[0]
        attempts.append((tile, at))
        if tile == 9 and at < 5:
            tried.set()
            return 5
        return cache.fetch(wanted, None, has_room)

    cache = Cache(lost=-1)
    ahead = ahead_of(cache, 10, fetch=fetch)
    while ahead._take():
        pass
    assert tried.wait(60)
    time.sleep(0.05)  # until it waits
    for step in range(1, 6):
        now[0] = step
        ahead.moved(step)
    wait([one.future for coming in ahead._coming for one in coming.tiles], 30)
    assert cache.has(9)
    assert [attempt for attempt in attempts if attempt[0] == 9] == [(9, 0), (9, 5)]
    ahead.leave()
    assert list(ahead.run()) == []


def test_who_leaves_while_requests_wait_for_a_store_and_for_room_gets_no_more_requests() -> None:
    under_way, may_end = threading.Event(), threading.Event()

    def fetch(wanted: Sequence[Any], step: int | None, has_room: Callable[[], None]) -> int | None:
        under_way.set()
        assert may_end.wait(60)
        return None

    # The first takes its time, and no other one ever has its turn.
    ahead = ahead_of(Cache(lost=-1), 40, fetch=fetch)
    while ahead._take():
        pass
    waiting = [one for coming in ahead._coming for one in coming.tiles if one.number]
    found: list[Request] = []
    loop = threading.Thread(target=lambda: found.extend(ahead.run()), daemon=True)
    loop.start()
    assert under_way.wait(60)
    ahead.leave()
    # Those that wait for their turn end at once, and what is under way when it can.
    end = time.monotonic() + 30
    while not all(one.future.done() for one in waiting):
        assert time.monotonic() < end
        time.sleep(0.01)
    may_end.set()
    loop.join(60)
    assert not loop.is_alive()
    assert found == []
