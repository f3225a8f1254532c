"""The user's cache: links in it lead nothing astray, and what is no file is as if it was not there."""

import os
from pathlib import Path

import pytest

from tokenyard.storage.user_cache import recall, remember


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that is a link to another one, as to a larger disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_cache_that_is_a_link_keeps_what_it_is_given(home: Path, tmp_path: Path) -> None:
    assert remember("kind/entry", b"1")
    assert recall("kind/entry") == b"1"
    assert home.is_symlink()
    assert (tmp_path / "disk/kind/entry").read_bytes() == b"1"


def test_an_entry_that_is_a_link_is_read_through_and_replaced_not_written_through(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (home / "kind").mkdir()
    (home / "kind/entry").symlink_to(tmp_path / "mine")
    assert recall("kind/entry") == b"mine"
    assert remember("kind/entry", b"2")
    assert recall("kind/entry") == b"2"
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert not (home / "kind/entry").is_symlink()


def test_below_a_link_inside_the_cache_nothing_is_written(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home / "kind").symlink_to(tmp_path / "elsewhere")
    assert not remember("kind/entry", b"1")
    assert recall("kind/entry") is None
    assert not list((tmp_path / "elsewhere").iterdir())


def test_links_that_lead_nowhere_or_to_themselves_and_pipes_and_devices_are_no_entries(home: Path) -> None:
    (home / "nowhere").symlink_to(home / "nothing")
    (home / "loop").symlink_to(home / "loop")
    (home / "zeros").symlink_to("/dev/zero")
    os.mkfifo(home / "pipe")
    for name in ("nowhere", "loop", "zeros", "pipe"):
        assert recall(name) is None
        assert remember(name, b"1")
        assert recall(name) == b"1"
