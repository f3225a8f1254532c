"""What a name may lead to besides a file: pipes, devices, links; and where nothing is ever written."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.corpora import write_corpus
from tests.formats import mds_by_hand
from tokenyard.corpus import open_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.errors import DataError, StorageError, TokenyardError
from tokenyard.storage import Folder

ROWS = [[1, 2, 3], [4], [5, 6]]


@pytest.mark.parametrize("name", ["a.npy", "a.tar", "a.jsonl", "a.csv", "a.parquet", "index.json"])
def test_a_named_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(StorageError, match=f"{name}: a pipe, a socket or a device, where a file should be; remove it"):
        open_corpus(tmp_path)


@pytest.mark.parametrize("name", ["a.npy", "a.tar", "a.jsonl", "a.csv", "a.parquet", "index.json"])
def test_a_link_to_a_device_that_never_ends_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(StorageError, match=f"{name}: a pipe, a socket or a device, where a file should be; remove it"):
        open_corpus(tmp_path)


@pytest.mark.parametrize("read", ["mmap", "pread"])
@pytest.mark.parametrize("format", ["npy", "mds", "webdataset", "parquet", "jsonl", "csv"])
def test_a_pipe_in_the_place_of_a_shard_of_ours_is_an_error_that_names_it(
    tmp_path: Path, format: str, read: str
) -> None:
    shard = write_corpus(tmp_path, ROWS, format=format).manifest.shards[0].name
    (tmp_path / shard).unlink()
    os.mkfifo(tmp_path / shard)
    corpus = open_corpus(tmp_path, read=read)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=f"{shard}: 0 bytes, expected"):
        list(corpus.batches())


@pytest.mark.parametrize("format", ["npy", "mds", "webdataset", "parquet", "jsonl", "csv"])
def test_a_pipe_that_takes_the_place_of_an_open_shard_is_an_error(tmp_path: Path, format: str) -> None:
    shard = write_corpus(tmp_path, ROWS, format=format).manifest.shards[0].name
    corpus = open_corpus(tmp_path, read="pread")
    corpus.row_lengths()  # its reader is made
    (tmp_path / shard).unlink()
    os.mkfifo(tmp_path / shard)
    with pytest.raises(TokenyardError, match=f"{shard}: a pipe, a socket or a device, where a file should be"):
        list(corpus.batches())


def test_links_inside_a_corpus_are_read_through_wherever_they_lead(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", ROWS, format="mds")
    for name in [corpus.manifest.shards[0].name, "index.json"]:
        (tmp_path / "corpus" / name).rename(tmp_path / f"elsewhere {name}")
        (tmp_path / "corpus" / name).symlink_to(tmp_path / f"elsewhere {name}")
    (tmp_path / "corpus/.tokenyard").rename(tmp_path / "home")
    (tmp_path / "corpus/.tokenyard").symlink_to(tmp_path / "home")
    assert [open_corpus(tmp_path / "corpus")[i].tolist() for i in range(3)] == ROWS


@pytest.mark.parametrize("link", [".tokenyard", ".tokenyard/tmp", ".tokenyard/index"])
def test_an_index_is_never_written_through_a_link(tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data/a.npy", np.arange(6, dtype=np.uint16))
    (tmp_path / "data" / link).parent.mkdir(exist_ok=True)
    (tmp_path / "data" / link).symlink_to(elsewhere)
    with pytest.warns(UserWarning, match=f"can't be written to.*{link}: a link to {elsewhere}; a corpus is written"):
        index_corpus(tmp_path / "data")
    assert list(elsewhere.iterdir()) == []


def test_nothing_is_removed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/tmp").mkdir(parents=True)
    (tmp_path / "elsewhere/tmp/thesis.txt").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/.tokenyard").symlink_to(tmp_path / "elsewhere")
    for remove in (Folder(tmp_path / "data").clear_temporary, lambda: Folder(tmp_path / "data").remove(".tokenyard/x")):
        with pytest.raises(
            StorageError, match=r"data/.tokenyard: a link to .*elsewhere; a corpus is written inside its"
        ):
            remove()
    assert (tmp_path / "elsewhere/tmp/thesis.txt").exists()


def test_a_corpus_may_be_a_link_itself(tmp_path: Path) -> None:
    write_corpus(tmp_path / "there", ROWS)
    (tmp_path / "here").symlink_to(tmp_path / "there")
    (tmp_path / "there/.tokenyard/index/shard-00000.idx").unlink()
    Folder(tmp_path / "here").write(".tokenyard/x", b"x")
    assert (tmp_path / "there/.tokenyard/x").read_bytes() == b"x"


def test_a_path_too_long_to_be_looked_for_is_an_error_that_says_so(tmp_path: Path) -> None:
    name = "/".join(["a" * 200] * 20)
    with pytest.raises(StorageError, match=f"can't look for {tmp_path}/b+/a+.*: File name too long"):
        Folder(tmp_path / ("b" * 200)).exists(name)


def test_a_name_too_long_for_any_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    samples = [{"tokens": [1]}]
    folder = mds_by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, samples)
    mds_by_hand.edit(folder, raw_data={"basename": "a" * 300})
    with pytest.raises(DataError, match="of 300 bytes is longer than any file's: 255 bytes a part"):
        open_corpus(folder)
