"""The page cache of the system: put files into it, take them out, and see which part of them it holds."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tokenyard.storage.maps import map_file

#: Files of which memory holds more than this share are not cold.
MAX_COLD_SHARE = 0.01
_libc = ctypes.CDLL(None, use_errno=True)
_READ_BYTES = 16 << 20
_EFFECTIVE = os.access in os.supports_effective_ids


def files_of(folder: Path) -> list[Path]:
    """All files in a folder, hidden ones too."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def warm(files: Sequence[Path]) -> int:
    """Read all files once. Returns their bytes. Raises OSError."""
    size = 0
    for path in files:
        with open(path, "rb", buffering=0) as f:
            while data := f.read(_READ_BYTES):
                size += len(data)
    return size


def drop(files: Sequence[Path], *, sync: bool = True) -> None:
    """Ask the system to let go of what it holds of these files; those written not long ago go to the disk first.

    What some process has mapped stays; so does what is not on the disk yet, unless `sync`, which waits some ms a
    file, whether or not there is something to write. Does nothing where the system has no such call. Raises OSError.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        try:
            if sync:
                _sync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _sync(handle: int) -> None:
    """Write what isn't on the disk yet. File systems only read (squashfs) have no such call. Raises OSError."""
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.EROFS):
            raise


def resident_share(files: Sequence[Path]) -> float | None:
    """Which part of these files' pages is in memory, 0 to 1; None where the system can't tell.

    Linux tells it to whoever owns a file or may write to it; to others it says that all of it is there.
    """
    if not hasattr(_libc, "mincore"):
        return None
    pages = resident = 0
    for path in files:
        with open(path, "rb") as f:
            status = os.fstat(f.fileno())
            if os.geteuid() not in (0, status.st_uid) and not os.access(path, os.W_OK, effective_ids=_EFFECTIVE):
                return None
            size = status.st_size
            view = map_file(f.fileno(), size)
        if not size:
            continue
        flags = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        failed = _libc.mincore(
            ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(size), flags.ctypes.data_as(ctypes.c_void_p)
        )
        if failed:
            return None
        pages += len(flags)
        resident += int((flags & 1).sum())
    return resident / pages if pages else 0.0
