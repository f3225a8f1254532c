"""Files read by ranges: the same bytes in both modes, few files open, and no byte that is not the file's."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.errors import DataError, StorageError
from tokenyard.storage import Folder, RawFile, ReadMode
from tokenyard.storage.open_files import OPEN_FILES, OpenFiles

MODES: list[ReadMode] = ["mmap", "pread"]
DATA = np.random.default_rng(0).integers(0, 256, 20_000, np.uint8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "file"
    path.write_bytes(DATA.tobytes())
    return path


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
def test_a_range_holds_the_bytes_of_the_file(path: Path, mode: ReadMode, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(DATA)))
    stop = data.draw(st.integers(start, len(DATA)))
    file = RawFile(path, len(DATA), mode)
    assert file.mapped is (mode == "mmap")
    assert np.array_equal(file.read(start, stop), DATA[start:stop])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (6, 5), (0, 20_001)])
def test_a_range_outside_the_file_is_refused(path: Path, mode: ReadMode, start: int, stop: int) -> None:
    with pytest.raises(DataError, match=f"no bytes {start} .. {stop} in a file of 20000"):
        RawFile(path, len(DATA), mode).read(start, stop)


@pytest.mark.parametrize("mode", MODES)
def test_a_file_of_another_size_is_refused(path: Path, mode: ReadMode) -> None:
    with pytest.raises(DataError, match="20000 bytes, expected 19999; the file was cut or replaced, restore it"):
        RawFile(path, 19_999, mode).read(0, 5)


@pytest.mark.parametrize("mode", MODES)
def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path, mode: ReadMode) -> None:
    with pytest.raises(StorageError, match=r"can't read .*/absent: no such file or folder"):
        RawFile(tmp_path / "absent", 5, mode).read(0, 5)


def test_a_file_that_is_cut_between_reads_is_refused_by_pread(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    file = RawFile(path, 100, "pread")
    assert file.read(0, 100).tolist() == [0] * 100
    os.truncate(path, 60)
    with pytest.raises(DataError, match=f"{path}: 60 bytes, expected 100; the file was cut or replaced"):
        file.read(50, 100)


def test_a_file_that_is_cut_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    read = os.preadv

    def cut_then_read(handle: int, buffers: list[memoryview], offset: int) -> int:
        os.truncate(path, 60)
        return read(handle, buffers, offset)

    monkeypatch.setattr(os, "preadv", cut_then_read)
    with pytest.raises(DataError, match=f"{path}: 10 bytes from byte 50 on, expected 50; the file was cut while"):
        RawFile(path, 100, "pread").read(50, 100)


def test_reads_that_come_in_parts_are_joined(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda handle, buffers, offset: read(handle, [buffers[0][:7]], offset))
    assert np.array_equal(RawFile(path, len(DATA), "pread").read(3, 100), DATA[3:100])


def num_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_few_files_stay_open_and_those_that_leave_are_closed(tmp_path: Path) -> None:
    paths = [tmp_path / str(i) for i in range(20)]
    for path in paths:
        path.write_bytes(path.name.encode())
    before, files = num_open(), OpenFiles(3)
    for path in [*paths, *reversed(paths)]:
        assert os.pread(files.get(path).handle, 9, 0) == path.name.encode()
        assert num_open() <= before + 3
    assert len(files) == 3
    del files
    # It is held for forks to come; its files are not, once they are forgotten.


def test_a_file_in_use_is_not_closed_by_others(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / str(i)).write_bytes(b"x")
    files = OpenFiles(1)
    held = files.get(tmp_path / "0")
    for i in (1, 2):
        files.get(tmp_path / str(i))
    assert os.pread(held.handle, 1, 0) == b"x"
    assert files.get(tmp_path / "2") is files.get(tmp_path / "2")


def test_many_threads_read_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPEN_FILES, "_max_open", 4)
    for i in range(16):
        (tmp_path / str(i)).write_bytes(bytes([i]) * 50)
    wrong: list[int] = []

    def read(seed: int) -> None:
        for i in np.random.default_rng(seed).integers(0, 16, 200).tolist():
            if Folder(tmp_path, read="pread").raw(str(i), 50).read(10, 30).tolist() != [i] * 20:
                wrong.append(i)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(OPEN_FILES) <= 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_begins_with_no_open_file_and_reads(path: Path) -> None:
    file = RawFile(path, len(DATA), "pread")
    file.read(0, 1)
    OPEN_FILES._lock.acquire()  # as another thread of the parent may
    try:
        child = os.fork()
        if child == 0:
            fine = len(OPEN_FILES) == 0 and file.read(5, 9).tolist() == DATA[5:9].tolist()
            os._exit(0 if fine else 1)
    finally:
        OPEN_FILES._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert file.read(5, 9).tolist() == DATA[5:9].tolist()
