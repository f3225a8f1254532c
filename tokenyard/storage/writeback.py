"""Tell the system to begin writing a file to the disk, so that the ``fsync`` at its end has little left to wait for.

Linux has a call for that, ``sync_file_range``, which only begins the work and promises nothing; the promise stays with
``fsync``. Elsewhere, and on file systems that don't know it, nothing happens.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

_SYNC_FILE_RANGE_WRITE = 2


def begin_writeback(handle: int, start: int, num_bytes: int) -> None:
    """Begin to write ``num_bytes`` from ``start`` on, which were handed to the system; doesn't wait, never fails."""
    if _call is not None:
        _call(handle, start, num_bytes, _SYNC_FILE_RANGE_WRITE)


def _find() -> Callable[[int, int, int, int], int] | None:
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        call.restype = ctypes.c_int
    return call


_call = _find()
