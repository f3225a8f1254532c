"""Removing corpora in an order that tells at every moment what is left: its manifest, or its marker, goes last."""

from __future__ import annotations

import shutil
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from tokenyard.corpus.places import is_made
from tokenyard.manifest import HOME, MANIFEST_NAME, MARKER_NAME


def remove_corpus(folder: Path) -> None:
    """Delete a corpus. Raises OSError."""
    for entry in [*folder.iterdir(), *(folder / HOME).iterdir()]:
        if entry not in (folder / HOME, folder / MANIFEST_NAME):
            _remove(entry)
    _remove(folder)


def empty(folder: Path) -> None:
    """Delete all but the marker, the manifest first. Raises OSError."""
    for entry in [folder / MANIFEST_NAME, *folder.iterdir(), *(folder / HOME).iterdir()]:
        if entry not in (folder / HOME, folder / MARKER_NAME):
            _remove(entry)


def clear_failed(folder: Path, created: list[Path], files: Set[str] = frozenset()) -> None:
    """Delete what a job has made, and its folders where nobody has put anything there; what can't be is left.

    ``files``: names that its format gives to what it writes beside shards.
    """
    with suppress(OSError):
        home = folder / HOME
        made = [entry for entry in folder.iterdir() if is_made(entry.name, files) and entry != home]
        for entry in [*made, *(entry for entry in home.iterdir() if entry != folder / MARKER_NAME)]:
            _remove(entry)
        shutil.rmtree(home)
        for parent in created:
            parent.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
