"""Memory maps of whole files that keep no file open.

Python's own ``mmap`` holds a descriptor for as long as the map lives (before 3.13 always), so a process with the usual
limit of 1,024 open files could not have a corpus of 1,024 shards mapped. The system's call needs none once it returns.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

import numpy as np
from numpy.typing import NDArray

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


class _Map:
    """A read-only map of the first ``size`` bytes of an open file; unmapped when no array refers to it any more."""

    def __init__(self, handle: int, size: int) -> None:
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        # Not at exit: threads that still read would be killed by it, and the system unmaps anyway.
        weakref.finalize(self, _libc.munmap, address, size).atexit = False
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, True)}


def map_file(handle: int, size: int) -> NDArray[np.uint8]:
    """The first ``size`` bytes of an open file, read-only; ``handle`` may be closed afterwards. Raises OSError."""
    if size == 0:
        return np.empty(0, np.uint8)
    return np.asarray(_Map(handle, size))
