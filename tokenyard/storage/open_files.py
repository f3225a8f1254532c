"""Files kept open for reading: the few used last of a process, whatever number of shards its corpora have."""

from __future__ import annotations

import os
import resource
import threading
import weakref
from collections import OrderedDict
from pathlib import Path

from tokenyard.storage.regular import open_handle

#: One in four of the files that a process may have open, commonly 1,024; no more than are mapped in the other mode.
MAX_OPEN = max(16, min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


class OpenFile:
    """A file open for reading, until nobody refers to it any more."""

    def __init__(self, path: Path) -> None:
        self.handle = open_handle(path)
        # Not at exit: threads may still read, and the system closes it anyway.
        weakref.finalize(self, os.close, self.handle).atexit = False

    def is_at(self, path: Path) -> bool:
        """Whether the path still leads to this file, and not to one that took its place."""
        return os.path.samestat(os.fstat(self.handle), os.stat(path))


class OpenFiles:
    """Opens files and keeps at most ``max_open`` of them open. Safe in several threads; a fork begins with none."""

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[Path, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: Path) -> OpenFile:
        """The open file; it stays open as long as the caller holds it. Raises OSError."""
        with self._lock:
            if (file := self._files.get(path)) is not None:
                self._files.move_to_end(path)
        if file is not None and file.is_at(path):
            return file
        file = OpenFile(path)
        with self._lock:
            # Of two threads that open it at once, the last one's is kept.
            self._files[path] = file
            self._files.move_to_end(path)
            leaving = [self._files.popitem(last=False) for _ in range(len(self._files) - self._max_open)]
        del leaving  # closed outside of the lock
        return file


OPEN_FILES = OpenFiles(MAX_OPEN)
