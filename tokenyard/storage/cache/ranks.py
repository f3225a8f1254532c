"""Which ranks read through a cache folder now, and how far each is: what eviction must know of all of them.

Each has a file in ``ranks``, whose lock it holds for as long as it lives: two int64, its step and the step of what it
wants room for, which it writes over as it goes; and the JSON that it joined with.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import StorageError
from tokenyard.storage.cache.locks import is_at, release, remove_if_dead, try_lock
from tokenyard.storage.cache.names import NEVER

_STEP, _WANTS = 0, 1
_STEPS_BYTES = 16
#: New files, until one could be locked.
_ATTEMPTS = 100


@dataclass(frozen=True)
class Rank:
    """A living process, as it told of itself, its step, and the step of what it wants room for."""

    told: Mapping[str, Any]
    step: int
    wants: int = NEVER


class Ranks:
    """The ranks that share a folder; this process is one of them from `join` to `leave`."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "ranks"
        self._handle: int | None = None
        #: The steps in the file. They are told at every step of the training loop, and a store in memory costs a
        #: hundredth of a call of the system, for which a thread lets others run before it goes on.
        self._steps: NDArray[np.int64] | None = None
        self._path: Path | None = None
        self._pid = os.getpid()
        self._writing = threading.RLock()

    @property
    def counts_path(self) -> Path | None:
        """A file beside this rank's own, for what it counts."""
        return None if self._path is None else self._path.with_suffix(".counts")

    def join(self, told: Mapping[str, Any], step: int) -> None:
        """Become one of them. Raises OSError, StorageError where the file system has no locks."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.living()  # so that nothing of the dead is left
        path, handle = _own_file(self._folder)
        try:
            os.write(handle, np.array([step, NEVER]).tobytes() + json.dumps(dict(told)).encode())
            # A map of this handle would keep its lock for as long as a fork of this process lives.
            steps = np.memmap(path, np.int64, "r+", shape=2)
        except BaseException:
            release(handle)
            with suppress(OSError):
                path.unlink()
            raise
        self._handle, self._path, self._steps, self._pid = handle, path, steps, os.getpid()

    def tell(self, step: int) -> None:
        """Say how far this rank is. A fork of it is none."""
        self._write(step, _STEP)

    def want(self, step: int) -> None:
        """Say at which step that is used for which this rank wants room next; ``NEVER`` for nothing."""
        self._write(step, _WANTS)

    def leave(self) -> None:
        """Be one of them no more."""
        if self._pid != os.getpid():
            return
        with self._writing:
            handle, path, self._handle, self._path, self._steps = self._handle, self._path, None, None, None
        if handle is None or path is None:
            return
        for left in (path, path.with_suffix(".counts")):
            with suppress(OSError):
                left.unlink()
        release(handle)

    def _write(self, step: int, at: int) -> None:
        if self._pid != os.getpid():  # a fork may have been made while a thread held the lock
            return
        with self._writing:
            if self._steps is not None:
                self._steps[at] = step

    def living(self) -> list[Rank]:
        """Return all that live, this one too; files of the dead are removed."""
        found = []
        # Counts after the ranks that they belong to.
        for name in sorted(os.listdir(self._folder), key=lambda n: (n.endswith(".counts"), n)):
            path = self._folder / name
            if name.endswith(".counts"):
                with suppress(OSError):
                    if not path.with_suffix(".rank").exists():
                        path.unlink()
                continue
            if path != self._path and not remove_if_dead(path):
                continue
            # One that is just joining has written nothing yet; it asks others again later, as they ask it.
            with suppress(OSError, ValueError):
                text = path.read_bytes()
                step, wants = np.frombuffer(text, np.int64, 2).tolist()
                found.append(Rank(json.loads(text[_STEPS_BYTES:]), step, wants))
        return found


def _own_file(folder: Path) -> tuple[Path, int]:
    """A new file, locked: until it is, others that look who lives may take it for one of the dead, and remove it."""
    for _ in range(_ATTEMPTS):
        path = folder / f"{uuid.uuid4().hex}.rank"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            if try_lock(handle) and is_at(handle, path):
                return path, handle
        except BaseException:
            release(handle)
            with suppress(OSError):
                path.unlink()
            raise
        release(handle)
    raise StorageError(f"{folder}: new files were locked or removed {_ATTEMPTS} times; see what else works in there")
