"""What the system is told, and asked, about the pages of memory maps. Addresses are those of this process."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

#: The kernel cuts what one call asks for to the read-ahead of the device, 128 KiB unless it was set higher.
_CALL_BYTES = 128 << 10


def will_need(address: int, num_bytes: int) -> None:
    """Let the system begin to read mapped bytes that aren't in memory, without waiting for them; no more than a hint.

    The GIL is not held.
    """
    end = address + num_bytes
    start = address - address % mmap.PAGESIZE
    for at in range(start, end, _CALL_BYTES):
        _libc.madvise(at, min(_CALL_BYTES, end - at), mmap.MADV_WILLNEED)


def tells_residency(path: str | os.PathLike[str]) -> bool:
    """Whether `share_in_memory` is true of a file: Linux calls files of others resident that one may not write."""
    try:
        return os.stat(path).st_uid == os.geteuid() or os.access(path, os.W_OK)
    except OSError:
        return False


def share_in_memory(address: int, num_bytes: int) -> float:
    """The share of mapped bytes that are in memory, counted in pages; 1 where the system doesn't say (see above)."""
    start = address - address % mmap.PAGESIZE
    pages = np.zeros(-(-(address + num_bytes - start) // mmap.PAGESIZE), np.uint8)
    if not len(pages) or _libc.mincore(start, address + num_bytes - start, pages.ctypes.data):
        return 1.0
    return float((pages & 1).mean())
