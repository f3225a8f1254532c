"""An object as a file that is open for reading.

What was fetched lately is kept, and where bytes are read one after another, more is fetched at a time.
"""

from __future__ import annotations

import io
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

#: Bytes fetched at least, and at most where they are read one after another.
_LEAST_BYTES = 16 << 10
_MOST_BYTES = 8 << 20
#: What ``prefetch`` takes into memory; more is fetched while it is read.
_PREFETCH_BYTES = 256 << 20
_MAX_WINDOWS = 8


class RangeFile(Protocol):
    """What is read by ranges: a file of this machine, or an object."""

    num_bytes: int

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]: these bytes."""


class ObjectFile(io.BufferedIOBase):
    """A binary file over a file of ranges. Holds the last few windows of it in memory. For one thread."""

    def __init__(self, raw: RangeFile) -> None:
        self._raw = raw
        self._at = 0
        #: From the oldest: the byte at which each begins, and its bytes.
        self._windows: list[tuple[int, NDArray[np.uint8]]] = []

    def prefetch(self, start: int, stop: int) -> None:
        """Fetch bytes that will be read, at once, where they are few enough to be held."""
        stop = min(stop, self._raw.num_bytes)
        if start < stop <= start + _PREFETCH_BYTES:
            self._fetch(start, stop)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The byte that is read next."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte. Fetches nothing."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._raw.num_bytes}[whence]
        self._at = max(0, base + offset)
        return self._at

    def peek(self, size: int = 0) -> bytes:
        """Some bytes from here on, without going on; none at the end."""
        del size
        return self._part(1).tobytes()

    def read(self, size: int | None = -1) -> bytes:
        """Bytes from here on, fewer only at the end. Raises StorageError, DataError."""
        left = max(0, self._raw.num_bytes - self._at)
        size = left if size is None or size < 0 else min(size, left)
        parts = []
        while size > 0:
            part = self._part(size)[:size]
            parts.append(part)
            self._at += len(part)
            size -= len(part)
        return parts[0].tobytes() if len(parts) == 1 else b"".join(p.data for p in parts)

    def read1(self, size: int = -1) -> bytes:
        """As ``read``."""
        return self.read(size)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; returns its bytes, fewer only at the end."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _part(self, size: int) -> NDArray[np.uint8]:
        """Some bytes from here on: what a window holds of them, or a new one of ``size`` and more."""
        if self._at >= self._raw.num_bytes:
            return np.empty(0, np.uint8)
        for start, window in reversed(self._windows):
            if start <= self._at < start + len(window):
                return window[self._at - start :]
        follows = any(start + len(window) == self._at for start, window in self._windows)
        ahead = min(2 * len(self._windows[-1][1]), _MOST_BYTES) if follows else 0
        return self._fetch(self._at, min(self._at + max(size, ahead, _LEAST_BYTES), self._raw.num_bytes))

    def _fetch(self, start: int, stop: int) -> NDArray[np.uint8]:
        window = self._raw.read(start, stop)
        self._windows = [*self._windows[1 - _MAX_WINDOWS :], (start, window)]
        return window
