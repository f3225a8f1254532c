"""The bytes of one file by ranges: views of a map of it, or read into memory of our own.

Formats ask for ranges and need not know which. A map costs no memory and no call once its pages are there. Where a page
is missing, a thread waits for it, a little at a time; so on storage that answers slowly whole ranges are read at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import DataError
from tokenyard.stages import stage
from tokenyard.storage.errors import storage_error
from tokenyard.storage.maps import map_file
from tokenyard.storage.open_files import OPEN_FILES
from tokenyard.storage.regular import open_regular

#: How the bytes of raw shards come.
ReadMode = Literal["mmap", "pread"]


class RawFile:
    """A file of ``num_bytes``; nothing is opened before the first read. Safe in several threads.

    ``mapped``: ranges are views of a map, so a range of any size costs nothing; else each is new memory.
    ``range_bytes``: how much should be read at once; None where that is left to formats.
    """

    range_bytes: int | None = None

    def __init__(self, path: Path, num_bytes: int, mode: ReadMode) -> None:
        self.path = path
        self.num_bytes = num_bytes
        self.mapped = mode == "mmap"
        self._map: NDArray[np.uint8] | None = None

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]: these bytes, without the GIL held while a disk is waited for; not to be written to.

        Raises DataError for a file that has another size than promised, or is cut while it is read, StorageError for
        one that can't be read.
        """
        if not 0 <= start <= stop <= self.num_bytes:
            raise DataError(f"{self.path}: no bytes {start} .. {stop} in a file of {self.num_bytes}")
        try:
            if not self.mapped:
                with stage("read"):
                    return self._pread(start, stop)
            if self._map is None:
                self._map = map_whole(self.path, self.num_bytes)
            return self._map[start:stop]
        except OSError as e:
            raise storage_error(e, f"can't read {self.path}") from e

    def _pread(self, start: int, stop: int) -> NDArray[np.uint8]:
        file = OPEN_FILES.get(self.path)
        check_size(self.path, file.handle, self.num_bytes)
        data = np.empty(stop - start, np.uint8)
        view, found = data.data, 0
        while found < len(data):
            count = os.preadv(file.handle, [view[found:]], start + found)
            if count == 0:
                raise DataError(
                    f"{self.path}: {found} bytes from byte {start} on, expected {len(data)}; the file was cut while it "
                    "was read, restore it"
                )
            found += count
        return data


def map_whole(path: Path, expected_bytes: int | None = None) -> NDArray[np.uint8]:
    """A file as a read-only uint8 array over a memory map. Raises OSError.

    Raises DataError when its size is not ``expected_bytes``: a map of a file that was cut would kill the process.
    """
    with open_regular(path) as f:
        size = os.fstat(f.fileno()).st_size if expected_bytes is None else expected_bytes
        check_size(path, f.fileno(), size)
        return map_file(f.fileno(), size)


def check_size(path: Path, handle: int, expected_bytes: int) -> None:
    """Raise DataError unless an open file has as many bytes as were promised."""
    if (size := os.fstat(handle).st_size) != expected_bytes:
        raise DataError(f"{path}: {size} bytes, expected {expected_bytes}; the file was cut or replaced, restore it")
