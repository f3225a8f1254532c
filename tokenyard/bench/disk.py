"""What the disk gives by itself: the bound of all reading with a cold page cache."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tokenyard.bench.page_cache import MAX_COLD_SHARE, drop, files_of, resident_share, warm


def measure_disk(folder: Path) -> dict[str, Any]:
    """Read all files of a folder once in large pieces, out of the page cache: MB/s, or nothing where it isn't cold."""
    files = files_of(folder)
    drop(files)
    share = resident_share(files)
    if share is None or share > MAX_COLD_SHARE:
        return {"figures": {}}
    begun = time.perf_counter()
    size = warm(files)
    return {"figures": {"disk": size / (time.perf_counter() - begun) / 1e6}}
