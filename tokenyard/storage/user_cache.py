"""What was found out once and is worth remembering, in the user's cache.

The cache lies in ``TOKENYARD_CACHE``, else in ``~/.cache/tokenyard``. An entry is known by all that it depends on, so
nothing in it grows old. A cache that can't be read or written costs time and nothing else. The folder may be a link;
an entry that is one is read through, and replaced, never written through; below a link inside, nothing is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tokenyard.errors import StorageError
from tokenyard.storage.folder import Folder, checksum
from tokenyard.storage.regular import open_regular


def cache_folder() -> Path | None:
    """The user's cache; None where there is no home to have one in."""
    if named := os.environ.get("TOKENYARD_CACHE"):
        return Path(named)
    try:
        return Path("~/.cache/tokenyard").expanduser()
    except RuntimeError:
        return None


def cache_key(*known_by: Any) -> str:
    """A name for what depends on these JSON values (others count as their text), and on nothing else."""
    return checksum(json.dumps(known_by, sort_keys=True, default=str).encode()).removeprefix("blake3:")


def recall(name: str) -> bytes | None:
    """An entry, if it is there and can be read."""
    home = cache_folder()
    if home is None:
        return None
    try:
        with open_regular(home / name) as file:
            return file.read()
    except OSError:
        return None


def remember(name: str, data: bytes) -> bool:
    """Keep an entry under a path inside the cache. Returns whether that could be done."""
    home = cache_folder()
    if home is None:
        return False
    try:
        Folder(home).write(name, data)
    except StorageError:
        return False
    return True
