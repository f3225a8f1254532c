"""What a cache folder holds, looked at from outside."""

import fcntl
import os
from pathlib import Path


def bytes_on_disk(home: Path) -> int:
    """The bytes of all files of pieces, half-fetched ones too; under the lock, so that none moves meanwhile."""
    with open(home / "room") as room:
        fcntl.flock(room, fcntl.LOCK_EX)
        files = [path for kind in ("pieces", "kept") for path in (home / kind).rglob("*")]
        return sum(os.stat(path).st_size for path in files if path.is_file())
