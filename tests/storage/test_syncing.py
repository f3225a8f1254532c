"""Files that wait together to be on the disk."""

import errno
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import tokenyard
from tokenyard.errors import StorageError
from tokenyard.storage import Folder, syncing


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that were waited for, as they are named now."""
    found: list[str] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    return found


def write_all(folder: Folder, names: list[str]) -> None:
    for name in names:
        folder.write(name, b"x")


def test_each_file_is_waited_for_before_it_has_its_name(tmp_path: Path, synced: list[str]) -> None:
    Folder(tmp_path).write("a", b"1")
    assert [Path(name).parent for name in synced] == [tmp_path / ".tokenyard/tmp", tmp_path.parent]
    assert synced[1] == str(tmp_path)


def test_files_together_are_waited_for_when_the_outermost_block_ends(tmp_path: Path, synced: list[str]) -> None:
    folder = Folder(tmp_path)
    with folder.synced_together():
        with folder.synced_together():
            folder.write("a", b"1")
            folder.write("below/b", b"2")
        assert (tmp_path / "a").read_bytes() == b"1"
        assert synced == []
    assert sorted(synced) == sorted(map(str, [tmp_path / "a", tmp_path / "below/b", tmp_path, tmp_path / "below"]))
    folder.write("c", b"3")
    assert len(synced) == 6


def test_more_files_than_may_be_open_are_waited_for_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    monkeypatch.setattr(syncing, "_MAX_WAITING", 3)
    folder = Folder(tmp_path)
    with folder.synced_together():
        for number in range(7):
            folder.write(str(number), b"x")
        assert [name for name in synced if name != str(tmp_path)] != []
    assert sorted(name for name in synced if name != str(tmp_path)) == [str(tmp_path / str(n)) for n in range(7)]


def test_a_write_that_fails_on_its_way_to_the_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    folder = Folder(tmp_path)
    message = f"can't write what was begun in {tmp_path}: Input/output error"
    with pytest.raises(StorageError, match=message), folder.synced_together():
        folder.write("a", b"1")
    with pytest.raises(StorageError, match=f"can't write {tmp_path}/b"):
        folder.write("b", b"2")


@pytest.mark.parametrize("failing", ["0", "2", "3", "6", "below"])
def test_the_error_of_one_file_among_many_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str], failing: str
) -> None:
    fsync = os.fsync

    def fail_at_one(handle: int) -> None:
        fsync(handle)
        if synced[-1] == str(tmp_path / failing):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(syncing, "_MAX_WAITING", 3)
    monkeypatch.setattr(syncing, "_THREADS", 1)
    monkeypatch.setattr(os, "fsync", fail_at_one)
    folder, before = Folder(tmp_path), len(os.listdir("/proc/self/fd"))
    with pytest.raises(StorageError, match="Input/output error"), folder.synced_together():
        write_all(folder, [*map(str, range(7)), "below/8"])
    assert len(os.listdir("/proc/self/fd")) == before
    synced.clear()
    folder.write("alone", b"x")
    assert str(tmp_path) in synced


@pytest.mark.parametrize("limit", [0, 2])
def test_files_are_waited_for_where_no_more_threads_can_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str], limit: int
) -> None:
    begun: list[threading.Thread] = []
    start = threading.Thread.start

    def start_some(thread: threading.Thread) -> None:
        if len(begun) == limit:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    folder = Folder(tmp_path)
    with folder.synced_together():
        write_all(folder, list("abcdef"))
    assert sorted(synced) == sorted([str(tmp_path), *(str(tmp_path / name) for name in "abcdef")])
    assert len(begun) == limit
    assert not any(thread.is_alive() for thread in begun)


def test_a_corpus_can_be_closed_while_python_ends(tmp_path: Path) -> None:
    code = (
        "import atexit, sys, tokenyard; from tokenyard.schema import Schema; "
        "schema = Schema(token_dtype='uint16', vocab_size=9, eos_token_id=2); "
        "writer = tokenyard.CorpusWriter(sys.argv[1], format='npy', schema=schema); "
        "writer.write([1, 2, 3]); atexit.register(writer.close)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "c")], check=True)
    assert tokenyard.open_corpus(tmp_path / "c").row(0)["tokens"].tolist() == [1, 2, 3]


def test_a_block_that_could_not_be_closed_leaves_no_file_waiting_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    def fail(waiting: syncing.Unsynced) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    folder = Folder(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(syncing.Unsynced, "close", fail)
        with pytest.raises(OSError, match="Input/output error"), folder.synced_together():
            pass
    folder.write("alone", b"x")
    assert str(tmp_path) in synced


def test_an_error_inside_the_block_waits_for_nothing_and_leaves_nothing_open(tmp_path: Path, synced: list[str]) -> None:
    folder, before = Folder(tmp_path), len(os.listdir("/proc/self/fd"))
    with suppress(ZeroDivisionError), folder.synced_together():
        folder.write("a", b"1")
        raise ZeroDivisionError
    assert synced == []
    assert len(os.listdir("/proc/self/fd")) == before
