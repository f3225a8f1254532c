"""The corpus out of the page cache, so that a first epoch is measured and not one that was read before."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

from tokenyard.bench.page_cache import MAX_COLD_SHARE, drop, resident_share
from tokenyard.doctor.trial import Trial
from tokenyard.storage import storage_error

#: Of corpora with more files, some are looked at.
_LOOKED_AT = 64
#: Files that are dropped before the time is looked at.
_AT_ONCE = 64


def make_cold(files: Sequence[Path], at_most: float) -> float | None:
    """Have the system let go of files, for so many seconds at most. Returns the share of them that memory still holds.

    Of many files the share is that of some. None where the system can't tell. What a process has mapped stays, and all
    of a file system in memory. Raises StorageError.
    """
    until = time.monotonic() + at_most
    share = None
    try:
        for sync in (False, True):  # a corpus that was just written needs both
            for first in range(0, len(files), _AT_ONCE):
                drop(files[first : first + _AT_ONCE], sync=sync)
                if time.monotonic() >= until:
                    break
            share = resident_share(random.Random(0).sample(files, min(_LOOKED_AT, len(files))))
            if share is None or share <= MAX_COLD_SHARE:
                break
        return share
    except OSError as e:
        raise storage_error(
            e, "can't drop the corpus's files from the page cache; measure with it as it is (--warm)"
        ) from e


def is_cold(trial: Trial) -> bool:
    """Whether the corpus was out of the page cache when a trial began."""
    return trial.resident_share is not None and trial.resident_share <= MAX_COLD_SHARE
