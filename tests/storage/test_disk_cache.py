"""The cache on disk by itself: bounded, shared, and nobody's when its owner dies."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.cache_bytes import bytes_on_disk
from tokenyard.errors import DataError, StorageError
from tokenyard.manifest import FileInfo
from tokenyard.storage import checksum
from tokenyard.storage.cache import NEVER, CachedFile, Counters, DiskCache, FolderCache, Outlook, Piece, Ranks
from tokenyard.storage.cache import ranks as ranks_module
from tokenyard.storage.cache import room as room_module
from tokenyard.storage.cache.eviction import to_evict
from tokenyard.storage.cache.locks import locked, try_lock
from tokenyard.storage.cells import CELL_BYTES, CellHasher

SPAWN = multiprocessing.get_context("spawn")


def content(num_bytes: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(num_bytes)


def cells_of(data: bytes) -> NDArray[np.int64]:
    hasher = CellHasher()
    hasher.update(memoryview(data))
    return hasher.so_far()


class Remote:
    """A file elsewhere; what is read of it is counted, and may be wrong the first times."""

    def __init__(self, data: bytes, wrong_times: int = 0) -> None:
        self.data = data
        self.wrong_times = wrong_times
        self.ranges: list[tuple[int, int]] = []

    def read(self, start: int, stop: int) -> bytes:
        self.ranges.append((start, stop))
        data = bytearray(self.data[start:stop])
        if self.wrong_times > 0:
            self.wrong_times -= 1
            data[-1] ^= 1
        return bytes(data)


def cached(cache: DiskCache, remote: Remote, *, cells: bool = True, file: str = "file") -> CachedFile:
    known = cells_of(remote.data) if cells else None
    return CachedFile(cache, file, "s3://bucket/shard", len(remote.data), remote.read, known)


def test_a_range_is_fetched_once_with_all_cells_that_it_touches(tmp_path: Path) -> None:
    cache, remote = DiskCache(tmp_path, 1 << 20), Remote(content(5 * CELL_BYTES // 2))
    file = cached(cache, remote)
    for start, stop in ((CELL_BYTES + 10, CELL_BYTES + 20), (CELL_BYTES, 2 * CELL_BYTES)):
        assert file.read(start, stop).tobytes() == remote.data[start:stop]
    assert file.read(2 * CELL_BYTES + 1, len(remote.data)).tobytes() == remote.data[2 * CELL_BYTES + 1 :]
    assert remote.ranges == [(CELL_BYTES, 2 * CELL_BYTES), (2 * CELL_BYTES, len(remote.data))]
    assert file.read(7, 7).tobytes() == b""
    counts = cache.counters.sums()
    assert (counts.requests, counts.bytes_fetched, counts.hits, counts.waits) == (
        2,
        len(remote.data) - CELL_BYTES,
        1,
        2,
    )
    with pytest.raises(DataError, match=r"no bytes 5 \.\. 163841 in a file of 163840"):
        file.read(5, len(remote.data) + 1)


def test_wrong_bytes_are_fetched_once_more_and_then_told_with_their_range(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1 << 20)
    once = Remote(content(3 * CELL_BYTES), wrong_times=1)
    assert cached(cache, once, file="once").read(0, 5).tobytes() == once.data[:5]
    assert cache.counters.sums().refetched == 1
    always = Remote(content(3 * CELL_BYTES), wrong_times=100)
    with pytest.raises(DataError, match=rf"s3://bucket/shard: bytes {CELL_BYTES} \.\. {2 * CELL_BYTES} have another"):
        cached(cache, always, file="always").read(CELL_BYTES, CELL_BYTES + 1)
    assert len(always.ranges) == 2
    # Where nobody knows checksums, sizes are all.
    unknown = Remote(content(3 * CELL_BYTES), wrong_times=1)
    assert cached(cache, unknown, cells=False, file="unknown").read(0, 5).tobytes() != unknown.data[:5]
    unknown.data = unknown.data[:9]
    short = CachedFile(cache, "short", "s3://bucket/shard", 20, unknown.read)
    with pytest.raises(DataError, match=r"9 bytes came for bytes 0 \.\. 20; the file was cut"):
        short.read(0, 20)


def test_a_listed_file_is_kept_by_its_checksum_and_mended_where_it_was_damaged_on_disk(tmp_path: Path) -> None:
    cache, data = DiskCache(tmp_path, 1 << 20), content(1000)
    view = FolderCache(cache, "identity")
    info = FileInfo(name="index", bytes=1000, checksum=checksum(data))
    assert view.whole(info, "s3://bucket/index", lambda: data) == data
    (path,) = (tmp_path / "kept").rglob("0-1000")
    path.write_bytes(bytes(1000))
    assert view.whole(info, "s3://bucket/index", lambda: data) == data
    assert path.read_bytes() == data
    path.unlink()
    with pytest.raises(DataError, match=r"s3://bucket/index: 999 bytes, expected 1000 .* fetched twice"):
        view.whole(info, "s3://bucket/index", lambda: data[1:])
    assert view.whole(FileInfo(name="none", bytes=0), "there", lambda: data) == b""


def test_a_piece_of_another_size_than_its_name_says_is_fetched_again(tmp_path: Path) -> None:
    cache, remote = DiskCache(tmp_path, 1 << 20), Remote(content(CELL_BYTES))
    file = cached(cache, remote)
    file.read(0, 10)
    (path,) = (tmp_path / "pieces").rglob(f"0-{CELL_BYTES}")
    os.truncate(path, 5)
    assert file.read(0, 10).tobytes() == remote.data[:10]
    assert len(remote.ranges) == 2


def test_other_content_under_the_same_names_is_never_taken_for_it(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1 << 20)
    one, other = Remote(content(100, seed=1)), Remote(content(100, seed=2))
    for remote, identity in ((one, "1"), (other, "2"), (one, "1")):
        file = FolderCache(cache, identity).file("shard", "there", 100, remote.read, None)
        assert file.read(0, 100).tobytes() == remote.data
    assert (len(one.ranges), len(other.ranges)) == (1, 1)


def test_two_that_want_the_same_fetch_it_once(tmp_path: Path) -> None:
    cache, begun, may_end, fetches = DiskCache(tmp_path, 1 << 20), threading.Event(), threading.Event(), []

    def fetch() -> bytes:
        fetches.append(1)
        begun.set()
        assert may_end.wait(60)
        return b"12345"

    piece = Piece("file", 0, 5)
    threads = [threading.Thread(target=lambda: cache.fill_all([(piece, fetch)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    may_end.set()
    for thread in threads:
        thread.join()
    assert len(fetches) == 1
    found = cache.read("file", 1, 4)
    assert found is not None
    assert found.tobytes() == b"234"


def test_what_is_used_by_then_is_not_evicted_and_what_somebody_waits_for_is_always_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 300)
    uses = {"a": 5, "b": 9, "c": 7, "d": 8}

    def look_ahead(pieces: Sequence[Piece], before: int) -> Outlook:
        return Outlook.of(np.array([uses.get(piece.file, NEVER) for piece in pieces]))

    def fill(file: str, before: int) -> bool:
        return cache.fill_all([(Piece(file, 0, 100), lambda: bytes(100))], before=before, look_ahead=look_ahead)

    def there() -> set[str]:
        return {file for file in "abcde" if cache.has(Piece(file, 0, 100))}

    assert all(fill(file, uses[file]) for file in "abc")
    assert fill("d", 8)  # b is used later
    assert there() == {"a", "c", "d"}
    assert not fill("e", 8)  # all others are used by then
    assert there() == {"a", "c", "d"}
    assert fill("e", -1)
    assert there() == {"a", "c", "e"}
    assert not cache.fill_all([(Piece("large", 0, 301), lambda: bytes(301))])


@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(1, 5)), max_size=30),
    st.integers(-1, 20),
    st.integers(1, 40),
)
def test_what_goes_is_what_the_obvious_search_finds_and_no_more(
    pieces: list[tuple[int, bool, int]], before: int, num_bytes: int
) -> None:
    given_pieces = [Piece(str(i), 0, size, kept=kept) for i, (_, kept, size) in enumerate(pieces)]
    uses = {piece: use for piece, (use, _, _) in zip(given_pieces, pieces, strict=True)}
    left, expected = list(given_pieces), []
    while sum(piece.num_bytes for piece in expected) < num_bytes:
        candidates = [piece for piece in left if uses[piece] > before]
        if not candidates:
            expected = []
            break
        not_kept = [piece for piece in candidates if not piece.kept]
        chosen = max(not_kept or candidates, key=lambda piece: uses[piece])
        expected.append(chosen)
        left.remove(chosen)
    outlook = Outlook.of(np.array([uses[p] for p in given_pieces], np.int64))
    assert to_evict(given_pieces, outlook, num_bytes, before) == expected


def test_what_is_to_come_waits_for_a_piece_that_is_done_with_in_time_and_takes_no_other_in_its_place() -> None:
    pieces = [Piece(file, 0, 100) for file in "ab"]

    def outlook(*, next_of_a: int, done: int) -> Outlook:
        # a is used now, or was, and then at 160; b at 128.
        return Outlook(next=np.array([next_of_a, 128]), later=np.array([160, 128]), done=np.array([done, -1]), early=48)

    assert to_evict(pieces, outlook(next_of_a=40, done=44), 100, 64) == []
    assert outlook(next_of_a=40, done=44).first_done(64) == 44
    assert to_evict(pieces, outlook(next_of_a=160, done=-1), 100, 64) == pieces[:1]
    assert outlook(next_of_a=160, done=-1).first_done(64) == NEVER
    # It would be done with too late.
    assert to_evict(pieces, outlook(next_of_a=60, done=62), 100, 64) == pieces[1:]


def test_without_an_order_what_came_first_goes_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 300)
    for number, file in enumerate("abcd"):
        cache.fill(Piece(file, 0, 100), lambda: bytes(100))
        path = Piece(file, 0, 100).path(tmp_path)
        os.utime(path, ns=(0, number * 10**9))
    assert [file for file in "abcd" if cache.has(Piece(file, 0, 100))] == ["b", "c", "d"]


def _fill_at_random(home: str, max_bytes: int, seed: int) -> None:
    cache, rng = DiskCache(home, max_bytes), np.random.default_rng(seed)
    for _ in range(60):
        file, size = str(int(rng.integers(6))), int(rng.integers(1, 4000))
        data = content(4000, seed=int(file))[:size]
        cache.fill(Piece(file, 0, size), lambda data=data: data)  # type: ignore[misc]
        found = cache.read(file, 0, size)
        assert found is None or found.tobytes() == data


def test_several_processes_never_hold_more_than_the_bound(tmp_path: Path) -> None:
    DiskCache(tmp_path, 20_000)
    processes = [SPAWN.Process(target=_fill_at_random, args=(str(tmp_path), 20_000, seed)) for seed in range(4)]
    for process in processes:
        process.start()
    looks = 0
    while any(process.is_alive() for process in processes):
        assert bytes_on_disk(tmp_path) <= 20_000
        looks += 1
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert looks
    assert 0 < bytes_on_disk(tmp_path) <= 20_000


def _fetch_and_never_end(home: str, number: int, ready: Any) -> None:
    cache = DiskCache(home, 1000)
    Ranks(cache.home).join({"run": "killed", "rank": number}, 7)

    def fetch() -> bytes:
        ready.send(number)
        signal.pause()
        raise AssertionError

    cache.fill(Piece(str(number), 0, 100), fetch)


def test_eight_processes_that_are_killed_leave_nothing_in_the_way(tmp_path: Path) -> None:
    receiving, sending = SPAWN.Pipe(duplex=False)
    processes = [
        SPAWN.Process(target=_fetch_and_never_end, args=(str(tmp_path), n, sending), daemon=True) for n in range(8)
    ]
    for process in processes:
        process.start()
    assert {receiving.recv() for _ in processes} == set(range(8))
    assert bytes_on_disk(tmp_path) == 800
    for process in processes:
        assert "/dev/shm" not in Path(f"/proc/{process.pid}/maps").read_text()
        process.kill()
        process.join()
    cache = DiskCache(tmp_path, 1000)
    assert bytes_on_disk(tmp_path) == 0
    assert not list((tmp_path / "pieces").rglob(".*"))
    ranks = Ranks(cache.home)
    ranks.join({"run": "new"}, 3)
    assert [(rank.told, rank.step) for rank in ranks.living()] == [({"run": "new"}, 3)]
    for number in range(8):
        assert cache.fill(Piece(str(number), 0, 100), lambda: bytes(100)) == bytes(100)
    ranks.leave()
    assert not os.listdir(tmp_path / "ranks")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_keep_the_locks_of_its_parent(tmp_path: Path) -> None:
    ready, go_on = os.pipe()
    with locked(tmp_path / "lock", 1, "testing"):
        if (child := os.fork()) == 0:  # pragma: no cover
            os.read(ready, 1)
            os._exit(0)
    with locked(tmp_path / "lock", 1, "testing"):
        pass
    os.write(go_on, b"1")
    os.waitpid(child, 0)
    os.close(ready)
    os.close(go_on)


def test_a_lock_that_is_not_given_back_is_an_error_within_the_deadline(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000, wait_seconds=0.2)
    piece = Piece("file", 0, 10)
    (tmp_path / "pieces" / "file").mkdir()
    with (
        locked(piece.part(tmp_path), 1, "testing"),
        pytest.raises(StorageError, match=r"bytes 0 \.\. 10 .* another process has held the lock for 0.2 s; see what"),
    ):
        cache.fill(piece, lambda: bytes(10))
    with (
        locked(tmp_path / "room", 1, "testing"),
        pytest.raises(StorageError, match="making room in the cache: another"),
    ):
        cache.fill(piece, lambda: bytes(10))


def test_a_piece_that_is_dropped_while_others_count_is_taken_off_the_total_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, unlink = DiskCache(tmp_path, 1000), Path.unlink
    for file in "abc":
        cache.fill(Piece(file, 0, 100), lambda: bytes(100))

    def while_others_count(path: Path) -> None:
        unlink(path)
        with suppress(StorageError):  # it waits for the lock
            DiskCache(tmp_path, 1000, wait_seconds=0.05)

    monkeypatch.setattr(Path, "unlink", while_others_count)
    cache.drop(Piece("a", 0, 100))
    assert int((tmp_path / "room").read_bytes().split()[0]) == bytes_on_disk(tmp_path) == 200


def test_what_is_no_piece_in_the_place_of_one_is_fetched_again_and_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    remote, mine = Remote(content(3 * CELL_BYTES)), tmp_path / "mine"
    mine.write_bytes(b"mine")
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    cache = DiskCache(tmp_path / "cache", 1 << 20)
    file = cached(cache, remote)
    piece = file.piece(0, 100)
    for put in (os.mkfifo, lambda path: path.symlink_to(mine), lambda path: path.symlink_to("/dev/zero")):
        piece.path(cache.home).parent.mkdir(exist_ok=True)
        piece.path(cache.home).unlink(missing_ok=True)
        put(piece.path(cache.home))
        assert file.read(0, 100).tobytes() == remote.data[:100]
        assert piece.path(cache.home).is_file()
        assert not piece.path(cache.home).is_symlink()
    assert mine.read_bytes() == b"mine"


def test_a_folder_that_can_not_be_a_cache_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"can't keep a cache in .*cache: a file is in the way"):
        DiskCache(tmp_path / "file" / "cache", 1000)


def test_an_error_of_fetching_is_raised_and_leaves_room(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 100)

    def fail() -> bytes:
        raise StorageError("no such object")

    for _ in range(3):
        with pytest.raises(StorageError, match="no such object"):
            cache.fill(Piece("file", 0, 100), fail)
    assert cache.fill(Piece("file", 0, 100), lambda: bytes(100)) == bytes(100)


def _count(counters: Counters) -> None:
    counters.add(hits=1, wait_ns=10)


def test_counts_of_several_processes_are_added(tmp_path: Path) -> None:
    counters = Counters(tmp_path / "counts")
    counters.add(hits=2)
    for _ in range(2):
        process = SPAWN.Process(target=_count, args=(counters,))
        process.start()
        process.join()
    assert (counters.sums().hits, counters.sums().wait_ns) == (4, 20)


_RANK_WITH_A_FORK = """
import os, sys, time
from pathlib import Path
from tokenyard.storage.cache import Ranks
ranks = Ranks(Path(sys.argv[1]))
ranks.join({"rank": 0}, 7)
if not os.fork():
    print(os.getpid(), flush=True)  # it holds no lock by then
time.sleep(600)
"""


def test_a_rank_that_is_killed_is_dead_though_a_fork_of_it_lives(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _RANK_WITH_A_FORK, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as rank:
        assert rank.stdout is not None
        child = int(rank.stdout.readline())
        try:
            assert [(found.told, found.step) for found in Ranks(tmp_path).living()] == [({"rank": 0}, 7)]
            rank.kill()
            rank.wait()
            assert Ranks(tmp_path).living() == []
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_rank_that_joins_while_others_look_who_lives_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others, mine = Ranks(tmp_path), Ranks(tmp_path)
    others.join({"rank": 0}, 0)
    looks = 2

    def locked_late(handle: int) -> bool:
        nonlocal looks
        if looks:
            looks -= 1
            monkeypatch.setattr(ranks_module, "try_lock", try_lock)
            others.living()  # takes the new file for one of the dead
            monkeypatch.setattr(ranks_module, "try_lock", locked_late)
        return try_lock(handle)

    monkeypatch.setattr(ranks_module, "try_lock", locked_late)
    mine.join({"rank": 1}, 5)
    assert sorted((rank.told["rank"], rank.step) for rank in others.living()) == [(0, 0), (1, 5)]
    mine.want(9)
    mine.tell(6)
    assert sorted((rank.step, rank.wants) for rank in others.living()) == [(0, NEVER), (6, 9)]
    mine.leave()
    assert [rank.told["rank"] for rank in others.living()] == [0]
    others.leave()


def test_what_another_fetches_anew_is_not_removed_by_who_fetched_it_before(tmp_path: Path) -> None:
    cache, first, second = DiskCache(tmp_path, 1000), Piece("file", 0, 100), Piece("file", 100, 200)

    def while_another_fetches_the_first() -> bytes:
        cache.drop(first)
        going_on.start()
        assert begun.wait(10)
        return bytes(100)

    def slowly() -> bytes:
        begun.set()
        assert may_end.wait(10)
        return bytes(100)

    begun, may_end, failed = threading.Event(), threading.Event(), []

    def fetch_again() -> None:
        try:
            cache.fill_all([(first, slowly)])
        except StorageError as e:
            failed.append(e)

    going_on = threading.Thread(target=fetch_again)
    assert cache.fill_all([(first, lambda: bytes(100)), (second, while_another_fetches_the_first)])
    may_end.set()
    going_on.join(10)
    assert not failed
    assert cache.has(first)
    assert cache.has(second)


def test_what_lay_there_when_the_machine_was_started_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote(content(3 * CELL_BYTES))
    monkeypatch.setattr(room_module, "_boot_id", lambda: b"one start")
    cached(DiskCache(tmp_path, 1 << 20), remote).read(0, 100)
    cached(DiskCache(tmp_path, 1 << 20), remote).read(0, 100)
    assert len(remote.ranges) == 1
    monkeypatch.setattr(room_module, "_boot_id", lambda: b"another")
    assert cached(DiskCache(tmp_path, 1 << 20), remote).read(0, 100).tobytes() == remote.data[:100]
    cached(DiskCache(tmp_path, 1 << 20), remote).read(0, 100)
    assert len(remote.ranges) == 2
    assert bytes_on_disk(tmp_path) == CELL_BYTES


def test_a_fork_of_a_rank_does_not_take_its_place(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path)
    ranks.join({"rank": 0}, 3)
    if (child := os.fork()) == 0:
        try:
            ranks.tell(7)
            ranks.leave()
        except BaseException:  # noqa: BLE001  # told by the exit status
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [rank.step for rank in ranks.living()] == [3]
    ranks.leave()
