"""What a cache folder holds, looked at from outside."""

import fcntl
import os
import stat
from pathlib import Path


def bytes_on_disk(home: Path) -> int:
    """The bytes of all files of pieces, half-fetched ones too; under the lock, so that none moves meanwhile.

    Half-fetched ones may still be removed: those for which there was no room are, without the lock.
    """
    with open(home / "room") as room:
        fcntl.flock(room, fcntl.LOCK_EX)
        files = [path for kind in ("pieces", "kept") for path in (home / kind).rglob("*")]
        return sum(map(_size, files))


def _size(path: Path) -> int:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
