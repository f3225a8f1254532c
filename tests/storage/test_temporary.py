"""Temporary files: where TMPDIR says, or a named error."""

import errno
import gzip
import io
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora import write_corpus
from tokenyard.converters.text import TextOptions, plan_texts
from tokenyard.converters.verify import verify
from tokenyard.errors import StorageError
from tokenyard.storage.objects import open_objects
from tokenyard.storage.temporary import temporary_file, temporary_folder
from tokenyard.storage.uploads import upload


@pytest.fixture
def compressed(tmp_path: Path) -> Path:
    out = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", "b"]}), out)
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(out.getvalue()))
    return tmp_path / "a.parquet.gz"


def test_a_temporary_file_is_where_the_variable_says_and_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with temporary_file() as file:
        file.write(b"1")
        assert os.fstat(file.fileno()).st_dev == tmp_path.stat().st_dev
        assert not list(tmp_path.iterdir())
    monkeypatch.delenv("TMPDIR")
    assert temporary_folder() == tempfile.gettempdir()


def test_a_variable_that_names_no_folder_is_told_by_all_that_need_one(
    tmp_path: Path, compressed: Path, monkeypatch: pytest.MonkeyPatch, peers_python: Path
) -> None:
    write_corpus(tmp_path / "corpus", [[1, 2]])
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nothing"))
    told = r"nothing: no such folder, though TMPDIR names it for temporary files; make it, or unset it"
    with pytest.raises(StorageError, match=told):
        plan_texts(compressed, TextOptions())
    with pytest.raises(StorageError, match=told), upload(open_objects("memory://temporary"), "a"):
        pass
    with pytest.raises(StorageError, match=told):
        verify(tmp_path / "corpus", reference=True, python=str(peers_python))


def test_a_machine_without_any_folder_for_them_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(StorageError, match=r"no folder takes temporary files \(No usable.*name one in TMPDIR"):
        temporary_folder()


def test_a_folder_where_none_can_be_made_and_a_full_one_are_told(
    compressed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/proc")
    with pytest.raises(StorageError, match=r"can't make a temporary file in /proc \(TMPDIR names another folder\): "):
        plan_texts(compressed, TextOptions())

    class Full(io.BytesIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(StorageError, match=r"decompressed bytes of .*a.parquet.gz to a file of .*: the disk is full"):
        plan_texts(compressed, TextOptions())
