"""What a cache has done, counted over the processes that share a file: those of one rank, and its workers."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenyard.storage.cache.locks import locked

#: Processes that count at the same time; more share the last line, and may then lose a count.
_LINES = 128


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Sums since the beginning.

    Attributes:
        bytes_fetched: from where the corpus lies, row indexes included.
        requests: for them.
        hits: ranges that were read from the cache.
        waits: ranges that were fetched only when somebody asked for them, or was at them when somebody did.
        wait_ns: how long that took.
        refetched: pieces whose bytes were wrong, and were fetched once more.
        evicted_late: ranges that the cache had no room for, or had evicted before they were read.
    """

    bytes_fetched: int = 0
    requests: int = 0
    hits: int = 0
    waits: int = 0
    wait_ns: int = 0
    refetched: int = 0
    evicted_late: int = 0

    def since(self, before: Counts) -> Counts:
        """Return what was added since then."""
        return Counts(**{name: getattr(self, name) - getattr(before, name) for name in _NAMES})


_NAMES = [field.name for field in fields(Counts)]


class Counters:
    """Counts into a file, a line for each process. Picklable; safe in threads.

    Args:
        path: the file, made where it is not there; None to count in this process alone.
        seconds: how long its lock may be waited for.
    """

    def __init__(self, path: Path | None = None, seconds: float = 10.0) -> None:
        self._path = path
        self._seconds = seconds
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._lines: NDArray[np.int64] | None = None
        self._mine = 0

    def __getstate__(self) -> tuple[Path | None, float]:
        return self._path, self._seconds

    def __setstate__(self, state: tuple[Path | None, float]) -> None:
        self._path, self._seconds = state
        self._reset()

    def add(self, **counts: int) -> None:
        """Add to counts by name."""
        if self._pid != os.getpid():
            self._reset()
        with self._lock:
            if self._lines is None:
                self._lines = self._opened()
            for name, count in counts.items():
                self._lines[self._mine, 1 + _NAMES.index(name)] += count

    def sums(self) -> Counts:
        """Return the sums over all processes."""
        if self._pid != os.getpid():
            self._reset()
        with self._lock:
            if self._lines is None:
                self._lines = self._opened()
            found = self._lines[:, 1:].sum(axis=0)
        return Counts(**dict(zip(_NAMES, found.tolist(), strict=True)))

    def _opened(self) -> NDArray[np.int64]:
        shape = (_LINES, 1 + len(_NAMES))
        if self._path is None:
            return np.zeros(shape, np.int64)
        with locked(self._path, self._seconds, "counting") as handle:
            os.ftruncate(handle, int(np.prod(shape)) * 8)
            lines = np.memmap(self._path, np.int64, "r+", shape=shape)
            self._mine = next((i for i, pid in enumerate(lines[:, 0].tolist()) if not _lives(pid)), _LINES - 1)
            lines[self._mine, 0] = os.getpid()
        return lines


def _lives(pid: int) -> bool:
    if pid == 0 or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
