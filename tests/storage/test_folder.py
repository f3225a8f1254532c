"""Files of a corpus: listed, read, mapped, and published whole or not at all."""

import errno
import gc
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tokenyard.errors import DataError, StorageError
from tokenyard.storage import Folder, checksum, folder, remove_tree, storage_error, writeback


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_files_are_listed_in_natural_order(tmp_path: Path) -> None:
    names = ["a1.npy", "a2.npy", "a10.npy", "b-1-2.npy", "b-1-10.npy", "b-2-1.npy", "c/9/x", "c/10/x", "z"]
    make(tmp_path, *reversed(names))
    assert Folder(tmp_path).list() == names


def test_numbers_padded_with_zeros_keep_the_order_of_their_characters(tmp_path: Path) -> None:
    names = [f"shard-{i:05d}-{j:05d}.mds" for i in range(12) for j in range(12)]
    make(tmp_path, *names)
    assert Folder(tmp_path).list() == names == sorted(names)


def test_names_that_count_the_same_have_an_order_too(tmp_path: Path) -> None:
    make(tmp_path, "a1", "a01", "a001")
    assert Folder(tmp_path).list() == ["a001", "a01", "a1"]


def test_hidden_files_and_folders_are_not_listed(tmp_path: Path) -> None:
    make(tmp_path, "seen", ".hidden", ".tokenyard/manifest.json", "sub/.hidden", "sub/.git/x", "sub/seen")
    assert Folder(tmp_path).list() == ["seen", "sub/seen"]


def test_links_to_files_are_listed_and_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "elsewhere/data.npy", "corpus/own.npy")
    (tmp_path / "corpus/link.npy").symlink_to(tmp_path / "elsewhere/data.npy")
    (tmp_path / "corpus/loop").symlink_to(tmp_path / "corpus")
    assert Folder(tmp_path / "corpus").list() == ["link.npy", "own.npy"]
    assert Folder(tmp_path / "corpus").read("link.npy") == b"x"


def test_a_folder_that_can_not_be_listed_is_an_error_and_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "sub/x")

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageError, match=f"can't list {tmp_path}: no permission; check the owner and mode"):
        Folder(tmp_path).list()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", "a//b"])
def test_a_name_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="it would lead outside the corpus"):
        Folder(tmp_path).at(name)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for read in (folder.read, folder.size, folder.modified):
        with pytest.raises(StorageError, match=f"can't read {tmp_path}/absent: no such file or folder"):
            read("absent")
    with pytest.raises(StorageError, match=f"can't map {tmp_path}/absent: no such file or folder"):
        folder.map("absent")
    assert not folder.exists("absent")


def test_a_file_is_read_whole_or_from_its_beginning(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    info = folder.write("sub/file", b"0123456789")
    assert (info.name, info.bytes, info.checksum) == ("sub/file", 10, checksum(b"0123456789"))
    assert folder.read("sub/file") == b"0123456789"
    assert folder.read("sub/file", 4) == b"0123"
    assert folder.size("sub/file") == 10


def test_a_map_is_read_only_and_lives_as_long_as_any_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "mapped-file").write_bytes(bytes(range(256)) * 64)
    whole = Folder(tmp_path).map("mapped-file", 256 * 64)
    assert not whole.flags.writeable
    part = whole[256:512].view("<u2")
    del whole
    gc.collect()
    assert "mapped-file" in Path("/proc/self/maps").read_text()
    assert part[:2].tolist() == [0x0100, 0x0302]
    del part
    gc.collect()
    assert "mapped-file" not in Path("/proc/self/maps").read_text()


def test_an_empty_file_maps_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert len(Folder(tmp_path).map("empty", 0)) == 0


def test_a_file_of_another_size_is_not_mapped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"123")
    with pytest.raises(DataError, match="file: 3 bytes, expected 4; the file was cut or replaced, restore it"):
        Folder(tmp_path).map("file", 4)


def test_a_folder_is_no_file_to_map(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(StorageError, match=f"can't map {tmp_path}/sub: Is a directory"):
        Folder(tmp_path).map("sub")


def test_more_files_can_be_mapped_than_may_be_open(tmp_path: Path) -> None:
    for i in range(100):
        (tmp_path / str(i)).write_bytes(bytes([i]))
    code = (
        "import resource, sys\n"
        "from tokenyard.storage import Folder\n"
        "folder = Folder(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
        "maps = [folder.map(str(i)) for i in range(100)]\n"
        "assert [int(m[0]) for m in maps] == list(range(100))\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, timeout=200)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.publish("file") as file:
        file.write(b"one ")
        assert not (tmp_path / "file").exists()
        file.write(np.array([1, 2], "<u2"))
        file.write(b"")
        assert file.tell() == 8
    assert (tmp_path / "file").read_bytes() == b"one \1\0\2\0"
    assert file.info.checksum == checksum(b"one \1\0\2\0")
    with suppress(ZeroDivisionError), folder.publish("other") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert folder.list() == ["file"]
    assert list((tmp_path / ".tokenyard/tmp").iterdir()) == []


@pytest.mark.parametrize("has_call", [True, False])
def test_a_file_is_the_same_however_it_is_cut_and_whatever_the_system_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_call: bool
) -> None:
    monkeypatch.setattr(folder, "_WRITE_BYTES", 7)
    monkeypatch.setattr(folder, "_WRITEBACK_BYTES", 20)
    if not has_call:
        monkeypatch.setattr(writeback, "_call", None)
    data = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8).tobytes()
    with Folder(tmp_path).publish("x") as file:
        for start, stop in ((0, 0), (0, 3), (3, 3), (3, 500), (500, 1000)):
            assert file.write(data[start:stop]) == stop - start
            assert file.tell() == stop
    assert (tmp_path / "x").read_bytes() == data
    assert (file.info.bytes, file.info.checksum) == (1000, checksum(data))


def test_what_can_not_be_told_to_the_system_is_no_error() -> None:
    writeback.begin_writeback(-1, 0, 10)


def test_a_file_with_the_longest_name_there_is_can_be_published(tmp_path: Path) -> None:
    assert Folder(tmp_path).write("n" * 255, b"x").bytes == 1


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "the disk is full; free space"),
        (errno.EDQUOT, "the quota is used up; free space"),
        (errno.EFBIG, "the file is larger than this system or its limits allow; use smaller shards"),
        (errno.EMFILE, r"too many open files; raise the limit \(ulimit -n\)"),
        (errno.EACCES, "no permission; check the owner and mode"),
        (errno.EPERM, "not permitted; check the owner and mode"),
        (errno.EROFS, "the file system is read-only; choose another folder"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_an_error_of_the_system_says_the_way_out_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match=f"can't write {tmp_path}/file: {advice}"):
        Folder(tmp_path).write("file", b"x")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "import resource, sys\n"
        "from tokenyard.errors import StorageError\n"
        "from tokenyard.storage import Folder\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    Folder(sys.argv[1]).write('file', b'x' * 2000)\n"
        "except StorageError as e:\n"
        "    print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], check=True, timeout=200, capture_output=True, text=True
    )
    assert "the file is larger than this system or its limits allow; use smaller shards" in done.stdout
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_place_below_a_file_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        StorageError, match=f"can't write {tmp_path}/file/below/x: a file is in the way where a folder should be"
    ):
        Folder(tmp_path / "file/below").write("x", b"")


def test_removing_says_what_it_could_not_remove(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("file", b"x")
    folder.remove("file")
    folder.remove("file")
    with pytest.raises(StorageError, match=f"can't remove {tmp_path}/absent: no such file or folder"):
        remove_tree(tmp_path / "absent")
    (tmp_path / "sub").mkdir()
    with pytest.raises(StorageError, match=f"can't remove {tmp_path}/sub"):
        folder.remove("sub")


def test_an_unknown_error_is_told_in_the_words_of_the_system() -> None:
    assert str(storage_error(OSError("strange"), "can't do")) == "can't do: strange"


def test_files_below_a_folder_are_named_with_the_hidden_ones(tmp_path: Path) -> None:
    make(tmp_path, "a", ".tokenyard/index/b.idx", ".tokenyard/index/sub/.c", ".tokenyard/other")
    assert Folder(tmp_path).below(".tokenyard/index") == [".tokenyard/index/b.idx", ".tokenyard/index/sub/.c"]
    assert Folder(tmp_path).below("nothing") == []


def test_sizes_are_told_of_the_files_that_are_there(tmp_path: Path) -> None:
    make(tmp_path, "a", "sub/b")
    assert Folder(tmp_path).sizes(["a", "sub/b", "c"]) == {"a": 1, "sub/b": 1}


def test_lines_are_there_when_they_were_added(tmp_path: Path) -> None:
    lines = Folder(tmp_path).lines(".tokenyard/job/done/x.jsonl")
    lines.add(b"one\n")
    assert (tmp_path / ".tokenyard/job/done/x.jsonl").read_bytes() == b"one\n"
    lines.add(b"two\n")
    lines.close()
    lines.close()
    assert (tmp_path / ".tokenyard/job/done/x.jsonl").read_bytes() == b"one\ntwo\n"


def test_lines_that_can_not_be_written_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "file")
    with pytest.raises(StorageError, match=r"can't write to .*/file/x\.jsonl: a file is in the way"):
        Folder(tmp_path).lines("file/x.jsonl")
    lines = Folder(tmp_path).lines("x.jsonl")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match=r"can't write to .*/x\.jsonl: the disk is full"):
        lines.add(b"one\n")
    lines.close()
