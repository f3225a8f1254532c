"""Formats of others that keep files of their own beside the shards: known for a job's own, whatever ended it."""

from pathlib import Path

import pytest

from tests.corpora import random_rows, write_corpus
from tokenyard.converters.convert import convert
from tokenyard.corpus import CorpusWriter, open_corpus
from tokenyard.errors import ConfigError, DestinationExistsError
from tokenyard.formats import registry
from tokenyard.formats.npy import Npy
from tokenyard.manifest import FileInfo, Manifest
from tokenyard.schema import Schema
from tokenyard.storage import Folder
from tokenyard.storage.objects import open_objects
from tokenyard.testing.round_trips import contents


class KilledError(BaseException):
    """As if the process ended, right after a file was written."""


class Listed(Npy):
    """NPY with a file beside the shards, and a folder of others."""

    name = "listed"
    native_files = ("contents.txt", "more")
    is_killed = False

    def finish(self, folder: Folder, manifest: Manifest) -> tuple[FileInfo, ...]:
        files = [folder.write(name, b"listed\n") for name in ("contents.txt", "more/notes.txt")]
        if self.is_killed:
            raise KilledError
        return tuple(files)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Listed:
    format = Listed()
    monkeypatch.setitem(registry._registered, format.name, format)
    return format


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "source", random_rows(seed=3, num_rows=40, longest=6))
    return tmp_path / "source"


def test_a_job_that_was_killed_after_it_wrote_them_goes_on(source: Path, tmp_path: Path, listed: Listed) -> None:
    convert(source, tmp_path / "whole", to="listed")
    listed.is_killed = True
    with pytest.raises(KilledError):
        convert(source, tmp_path / "out", to="listed")
    assert (tmp_path / "out/contents.txt").exists()
    listed.is_killed = False
    (tmp_path / "out/mine.txt").write_text("mine")
    with pytest.raises(DestinationExistsError, match=r"'mine.txt' has been put there since, which it did not make"):
        convert(source, tmp_path / "out", to="listed")
    (tmp_path / "out/mine.txt").unlink()
    convert(source, tmp_path / "out", to="listed")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_what_a_killed_job_left_is_replaced_by_another_one(source: Path, tmp_path: Path, listed: Listed) -> None:
    listed.is_killed = True
    with pytest.raises(KilledError):
        convert(source, tmp_path / "out", to="listed")
    convert(source, tmp_path / "out", to="csv", overwrite=True)
    assert open_corpus(tmp_path / "out").format == "csv"
    assert not (tmp_path / "out/contents.txt").exists()


def test_what_fails_without_anything_to_go_on_with_leaves_nothing(tmp_path: Path, listed: Listed) -> None:
    listed.is_killed = True
    with pytest.raises(KilledError), CorpusWriter(tmp_path / "out", format="listed", schema=Schema()) as writer:
        writer.write([1, 2, 3])
    assert not (tmp_path / "out").exists()


def test_a_job_that_was_killed_goes_on_in_a_store(source: Path, listed: Listed) -> None:
    listed.is_killed = True
    with pytest.raises(KilledError):
        convert(source, "memory://native-files/out", to="listed", num_workers=1)
    listed.is_killed = False
    convert(source, "memory://native-files/out", to="listed", num_workers=1)
    names = {info.name for info in open_objects("memory://native-files/out").list()}
    assert {"contents.txt", "more/notes.txt", ".tokenyard/manifest.json"} <= names


def test_a_format_that_writes_what_it_does_not_name_is_told(
    source: Path, tmp_path: Path, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "native_files", ("more",))
    with pytest.raises(ConfigError, match=r"format 'listed' wrote contents.txt .* native_files doesn't name \(more\)"):
        convert(source, tmp_path / "out", to="listed")
