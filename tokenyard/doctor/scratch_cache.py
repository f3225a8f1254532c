"""A cache for a trial alone: a corpus at a URL is fetched anew, and the job's own cache is left as it is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenyard.config import TrainConfig
from tokenyard.errors import ConfigError
from tokenyard.storage import storage_error
from tokenyard.storage.user_cache import cache_folder

#: Of what is free on the disk.
_MOST_SHARE = 0.5


@contextmanager
def scratch_cache(config: TrainConfig) -> Iterator[TrainConfig]:
    """The settings with an empty `loader.cache` on the disk of theirs, gone afterwards; as they are without one.

    It holds as many bytes as theirs, and half of what is free on that disk at most. Raises StorageError.
    """
    cache = config.loader.cache
    if cache is None:
        yield config
        return
    parent = _place(Path(cache.path) if cache.path is not None else cache_folder() or Path(tempfile.gettempdir()))
    try:
        num_bytes = min(cache.bytes, int(_MOST_SHARE * shutil.disk_usage(parent).free))
        place = tempfile.TemporaryDirectory(prefix=".tokenyard-doctor-", dir=parent)
    except OSError as e:
        raise storage_error(e, f"can't make a cache in {parent}, on the disk of loader.cache") from e
    with place as path:
        own = cache.model_copy(update={"path": path, "bytes": num_bytes})
        try:
            yield config.model_copy(update={"loader": config.loader.model_copy(update={"cache": own})})
        except ConfigError as e:
            if num_bytes < cache.bytes:
                e.add_note(
                    f"the cache of a trial may hold {num_bytes} bytes here, half of what is free at {parent}, and not "
                    f"the {cache.bytes} of loader.cache: make room there, or examine on a disk that has it"
                )
            raise


def _place(home: Path) -> Path:
    """A folder on the disk of a cache: the one it lies in or would lie in, or itself where it is all of its disk.

    Also where nobody may write beside it. Its own files have folders of their own, so nothing there is mistaken.
    """
    parent = _existing(home)
    if home.is_dir() and (not os.access(parent, os.W_OK | os.X_OK) or home.stat().st_dev != parent.stat().st_dev):
        return home
    return parent


def _existing(home: Path) -> Path:
    parent = home.absolute().parent
    while not parent.is_dir():
        parent = parent.parent
    return parent
