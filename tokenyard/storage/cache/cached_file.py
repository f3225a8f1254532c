"""A remote file that is read through the cache: by ranges, each checked when it arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import DataError
from tokenyard.storage.cache.disk import DiskCache
from tokenyard.storage.cache.names import Piece
from tokenyard.storage.cells import Cells, num_cells, whole_cells, wrong_cells

#: How much of a raw shard is read at once, and so at most what is read of it at both ends of an order block that the
#: order block doesn't need. It costs no request: order blocks are fetched whole.
RANGE_BYTES = 1 << 17

#: Gives bytes start .. stop of the remote file.
ReadRange = Callable[[int, int], Any]


class CachedFile:
    """A file of ``num_bytes``, with the interface of a ``RawFile`` that is not mapped. Safe in threads.

    Args:
        cache: where its pieces are kept.
        file: what the cache knows it by; another content is another name.
        where: what messages call it.
        num_bytes: its size.
        read_range: reads a range from where it lies, and says what goes wrong.
        cells: the checksums of its cells; where there are none, only sizes are checked.

    Raises:
        DataError: from reading, where a range has wrong bytes twice.
    """

    mapped = False
    range_bytes: int | None = RANGE_BYTES

    def __init__(
        self,
        cache: DiskCache,
        file: str,
        where: Any,
        num_bytes: int,
        read_range: ReadRange,
        cells: Cells | None = None,
    ) -> None:
        self.cache = cache
        self.file = file
        self.path = where
        self.num_bytes = num_bytes
        self._read_range = read_range
        # Checksums of a file of another size are another file's, and say nothing of this one.
        # A copy, since they may be a view that keeps all of a row index in memory.
        self._cells = cells.copy() if cells is not None and len(cells) == num_cells(num_bytes) else None

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]: these bytes, fetched where the cache doesn't have them; not to be written to."""
        if not 0 <= start <= stop <= self.num_bytes:
            raise DataError(f"{self.path}: no bytes {start} .. {stop} in a file of {self.num_bytes}")
        if start == stop:
            return np.empty(0, np.uint8)
        if (data := self.cache.read(self.file, start, stop)) is not None:
            self.cache.counters.add(hits=1)
            return data
        found: NDArray[np.uint8] = self.cache.timed(lambda: self._wanted(start, stop))
        return found

    def has(self, piece: Piece) -> bool:
        """Whether the cache has a piece of it."""
        return self.cache.has(piece)

    def piece(self, start: int, stop: int, label: str = "", *, kept: bool = False) -> Piece:
        """The piece that is fetched for a range: all cells that it touches, where their checksums are known."""
        if self._cells is not None:
            start, stop = whole_cells(start, stop, self.num_bytes)
        return Piece(self.file, start, stop, label, kept)

    def fetch(self, piece: Piece) -> Any:
        """The bytes of a piece from where the file lies, checked."""
        return self._checked(piece.start, piece.stop)

    def _wanted(self, start: int, stop: int) -> NDArray[np.uint8]:
        piece = self.piece(start, stop)
        fetched = self.cache.fill(piece, lambda: self.fetch(piece))
        if fetched is None and (data := self.cache.read(self.file, start, stop)) is not None:
            return data
        if fetched is None:  # evicted at once, or never kept
            self.cache.counters.add(evicted_late=1)
            fetched = self.fetch(piece)
        return np.frombuffer(fetched, np.uint8)[start - piece.start : stop - piece.start]

    def _checked(self, start: int, stop: int) -> Any:
        """Bytes of the remote file; what has wrong checksums is fetched once more."""
        data = self._fetched(start, stop)
        if self._cells is None or wrong_cells(data, start, self._cells) is None:
            return data
        self.cache.counters.add(refetched=1)
        data = self._fetched(start, stop)
        if (wrong := wrong_cells(data, start, self._cells)) is not None:
            raise DataError(
                f"{self.path}: bytes {wrong[0]} .. {wrong[1]} have another checksum than when they were written, and "
                "so they had when they were fetched once more; the shard is damaged where it lies: restore it, or see "
                "with 'tokenyard verify' what else is"
            )
        return data

    def _fetched(self, start: int, stop: int) -> Any:
        data = self._read_range(start, stop)
        if (found := memoryview(data).nbytes) != stop - start:
            raise DataError(
                f"{self.path}: {found} bytes came for bytes {start} .. {stop}; the file was cut, restore it"
            )
        self.cache.counters.add(bytes_fetched=found, requests=1)
        return data
