"""Waiting until files are on the disk, alone or many together.

An ``fsync`` waits for a file's bytes, and then for the journal of the file system and the disk's own cache. Asked for
one after the other, many files wait for the latter each; asked for at once, they wait once.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

#: Each waiting file stays open, so that an error of its writing is not missed.
_MAX_WAITING = 64
_THREADS = 8


class Unsynced:
    """Files that were written, and the folders that they were renamed into. Its methods may raise OSError."""

    def __init__(self) -> None:
        self._handles: list[int] = []
        self._folders: set[Path] = set()

    def add(self, handle: int, folder: Path) -> None:
        """Take a file that is open under ``handle``, which may be closed afterwards."""
        if len(self._handles) >= _MAX_WAITING:
            self.sync()
        self._handles.append(os.dup(handle))
        self._folders.add(folder)

    def sync(self) -> None:
        """Wait until all that were taken are on the disk, and so are the names in their folders."""
        try:
            for folder in self._folders:
                self._handles.append(os.open(folder, os.O_RDONLY))
            _sync_all(self._handles)
        finally:
            self.close()

    def close(self) -> None:
        """Wait for none of them."""
        while self._handles:
            os.close(self._handles.pop())
        self._folders.clear()


def _sync_all(handles: Iterable[int]) -> None:
    """Wait for all at once. Raises the first error, after all were waited for.

    This thread takes its part, and does it all where no other can begin: at the system's limit, or while Python ends.
    """
    waiting, errors = deque(handles), list[Exception]()

    def work() -> None:
        with suppress(IndexError):
            while True:
                handle = waiting.popleft()
                try:
                    os.fsync(handle)
                except Exception as e:  # noqa: BLE001  # raised below: a thread has nobody to tell
                    errors.append(e)

    threads = [threading.Thread(target=work, name="tokenyard-fsync") for _ in range(min(len(waiting), _THREADS) - 1)]
    begun = []
    try:
        with suppress(RuntimeError):
            for thread in threads:
                thread.start()
                begun.append(thread)
        work()
    finally:
        for thread in begun:
            thread.join()
    if errors:
        raise errors[0]


def sync_folder(path: Path) -> None:
    """Make renames in a folder durable. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
