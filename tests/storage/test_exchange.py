"""Exchanging two folders, at once and in two steps."""

import os
from pathlib import Path
from typing import Any

import pytest

from tokenyard.storage import swap


@pytest.fixture(params=[True, False], ids=["at once", "in two steps"])
def folders(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    if not request.param:
        monkeypatch.setattr("tokenyard.storage.exchange._exchanged", lambda *_: False)
    for name in ("new", "final"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of {name}").touch()
    return tmp_path / "new", tmp_path / "final"


def test_the_new_folder_is_in_place_and_the_old_one_is_told(
    folders: tuple[Path, Path], request: pytest.FixtureRequest
) -> None:
    new, final = folders
    old = swap(new, final)
    assert os.listdir(final) == ["of new"]
    assert os.listdir(old) == ["of final"]
    assert (old == new) == (request.node.callspec.id == "at once")
    assert sorted(final.parent.iterdir()) == sorted([final, old])


def test_a_folder_that_is_not_there_is_an_error_and_the_other_one_stays(folders: tuple[Path, Path]) -> None:
    new, final = folders
    with pytest.raises(FileNotFoundError):
        swap(new.with_name("nowhere"), final)
    assert os.listdir(final) == ["of final"]
    assert sorted(final.parent.iterdir()) == [final, new]


def test_both_are_as_they_were_where_the_new_one_can_not_be_moved(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, final = folders
    monkeypatch.setattr("tokenyard.storage.exchange._exchanged", lambda *_: False)
    really = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(source) == new:
            raise OSError(5, "Input/output error")
        really(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="Input/output error"):
        swap(new, final)
    assert (os.listdir(new), os.listdir(final)) == (["of new"], ["of final"])
    assert len(os.listdir(final.parent)) == 2
