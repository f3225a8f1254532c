"""Where everything is written: a folder on the disk to measure, gone afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenyard.bench.settings import BenchSettings
from tokenyard.corpus import open_corpus
from tokenyard.errors import ConfigError, DestinationExistsError
from tokenyard.storage import storage_error


@contextmanager
def workplace(settings: BenchSettings) -> Iterator[tuple[Path, list[str]]]:
    """The folder to write in, gone afterwards unless it is to be kept; and what to tell of the choice."""
    if settings.keep is not None:
        if settings.keep.exists() and any(settings.keep.iterdir()):
            raise DestinationExistsError(f"{settings.keep}: this folder is not empty; name another one to keep")
        try:
            settings.keep.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise storage_error(e, f"can't make {settings.keep}") from e
        yield settings.keep, []
        return
    parent, notes = parent_of(settings)
    try:
        place = tempfile.TemporaryDirectory(prefix=".tokenyard-bench-", dir=parent)
    except OSError as e:
        raise storage_error(e, f"can't write in {parent}") from e
    with place as path:
        yield Path(path), notes


def parent_of(settings: BenchSettings) -> tuple[Path, list[str]]:
    """Where to make a temporary folder: where told, else beside the source, so that its disk is measured."""
    if settings.folder is not None:
        if not settings.folder.is_dir():
            raise ConfigError(f"dir: there is no folder {settings.folder}; make it, or name another one")
        return settings.folder, []
    if settings.source is None:
        return Path.cwd(), ["Everything was written in the current folder; --dir names another disk."]
    source = open_corpus(settings.source, **dict(settings.read)).folder
    if not source.asks_cheaply:
        return Path.cwd(), [
            "The corpus is on no disk here, so that of the current folder was measured; --dir names one."
        ]
    beside = source.path.resolve().parent
    if os.access(beside, os.W_OK):
        return beside, ["Everything was written beside the corpus, on its disk; --dir names another one."]
    return Path.cwd(), [
        "Nothing can be written beside the corpus, so the disk of the current folder was measured; --dir names another."
    ]
