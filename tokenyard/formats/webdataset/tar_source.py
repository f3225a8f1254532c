"""Where the walk through a tar gets its bytes: a buffer with all of them, or a stream that is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from tokenyard.formats.runs import Bytes

_CHUNK = 1 << 18


class TarSource(Protocol):
    """The bytes of a tar, asked for at rising positions."""

    @property
    def num_bytes(self) -> int | None:
        """How many there are; None while that is not known."""

    def read(self, start: int, size: int) -> bytes:
        """The ``size`` bytes from ``start`` on, fewer at the end alone."""

    def skip(self, position: int) -> bool:
        """Go on to ``position``; False where the end comes before it."""

    def first_nonzero(self, start: int) -> int | None:
        """The position of the first byte from ``start`` on that is not zero."""


class BufferSource:
    """A tar in memory, or mapped."""

    def __init__(self, buffer: Bytes) -> None:
        self._buffer = buffer
        self._view = buffer.data
        self.num_bytes: int | None = len(buffer)

    def read(self, start: int, size: int) -> bytes:
        """See TarSource."""
        return self._view[start : start + size].tobytes()

    def skip(self, position: int) -> bool:
        """See TarSource."""
        return position <= len(self._buffer)

    def first_nonzero(self, start: int) -> int | None:
        """See TarSource."""
        rest = self._buffer[start:]
        return start + int(np.argmax(rest != 0)) if rest.any() else None


class StreamSource:
    """A tar that comes out of a pipe or a decompressor: of it, only a chunk is in memory.

    ``read(size)`` gives at most ``size`` of the next bytes, none only at the end.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._chunk = memoryview(b"")
        self._position = 0
        self.num_bytes: int | None = None

    def read(self, start: int, size: int) -> bytes:
        """See TarSource. Raises ValueError for what has been passed already."""
        if start < self._position:
            raise ValueError(f"byte {start} of the stream has been passed; it stands at byte {self._position}")
        self.skip(start)
        return b"".join(self._pieces(size))

    def skip(self, position: int) -> bool:
        """See TarSource."""
        for _ in self._pieces(position - self._position):
            pass
        return self._position == position

    def first_nonzero(self, start: int) -> int | None:
        """See TarSource."""
        self.skip(start)
        while self._fill():
            piece = self._take(len(self._chunk))
            if rest := bytes(piece).lstrip(b"\0"):
                return self._position - len(rest)
        return None

    def _pieces(self, size: int) -> Iterator[memoryview]:
        while size > 0 and self._fill():
            piece = self._take(size)
            size -= len(piece)
            yield piece

    def _take(self, size: int) -> memoryview:
        piece, self._chunk = self._chunk[:size], self._chunk[size:]
        self._position += len(piece)
        return piece

    def _fill(self) -> bool:
        if not self._chunk:
            self._chunk = memoryview(self._read(_CHUNK))
            if not self._chunk:
                self.num_bytes = self._position
        return bool(self._chunk)
