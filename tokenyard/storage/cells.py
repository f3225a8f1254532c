"""Short checksums of a file's cells, by which a range of it can be checked without the rest of it.

A cell is ``CELL_BYTES`` of the file, the last one what is left. Its checksum is its XXH3 (64 bits, seed 0), as int64:
it tells damage on the way, and costs a fifth of BLAKE3, which the manifest has for the file as a whole. Writers keep
them in the row index of the shard, for each of its files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

#: Less: a range is read with less around it. More: fewer checksums, 8 KiB of them for a shard of 64 MiB.
CELL_BYTES = 1 << 16

#: int64[cells]: the checksums of a whole file.
Cells = NDArray[np.int64]


class CellHasher:
    """The checksums of a file that comes in pieces of any size."""

    def __init__(self) -> None:
        self._found: list[int] = []
        self._hash = xxhash.xxh3_64()
        self._bytes = 0

    def update(self, data: memoryview) -> None:
        """Take the bytes that come next."""
        at = 0
        while at < len(data):
            part = data[at : at + CELL_BYTES - self._bytes]
            at += len(part)
            if len(part) == CELL_BYTES:
                self._found.append(xxhash.xxh3_64_intdigest(part))
                continue
            self._hash.update(part)
            self._bytes += len(part)
            if self._bytes == CELL_BYTES:
                self._found.append(self._hash.intdigest())
                self._hash.reset()
                self._bytes = 0

    def so_far(self) -> Cells:
        """Return the checksums of all that came, were it the whole file."""
        last = [self._hash.intdigest()] if self._bytes else []
        return np.array(self._found + last, np.uint64).view(np.int64)


def num_cells(num_bytes: int) -> int:
    """How many cells a file has."""
    return -(-num_bytes // CELL_BYTES)


def whole_cells(start: int, stop: int, num_bytes: int) -> tuple[int, int]:
    """The range of a file that holds all cells that a range of it touches."""
    return start - start % CELL_BYTES, min(num_bytes, num_cells(stop) * CELL_BYTES)


def wrong_cells(data: Any, start: int, cells: Cells) -> tuple[int, int] | None:
    """The first range of a file whose checksum is another, among whole cells that begin at byte ``start``."""
    hasher = CellHasher()
    hasher.update(memoryview(data).cast("B"))
    found = hasher.so_far()
    first = start // CELL_BYTES
    wrong = np.flatnonzero(found != cells[first : first + len(found)])
    if not len(wrong):
        return None
    low = start + int(wrong[0]) * CELL_BYTES
    return low, min(low + CELL_BYTES, start + memoryview(data).nbytes)
