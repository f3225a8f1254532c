"""Files of lines that are added one by one, each of them there when its ``add`` has ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from tokenyard.storage.errors import storage_error


class Lines(Protocol):
    """Takes lines, each with its line feed."""

    def add(self, line: bytes) -> None:
        """Add a line. Raises StorageError."""

    def close(self) -> None:
        """Let go of what it needs; what was added stays."""


class LineFile:
    """A new local file of lines. Raises OSError where it can't be made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def add(self, line: bytes) -> None:
        """Hand a line to the system, which is not waited for: it is lost where the machine goes down soon after."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as e:
            raise storage_error(e, f"can't write to {self._path}") from e

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1
