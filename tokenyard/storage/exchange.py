"""Exchanging two folders in one step of the file system, where it can."""

import ctypes
import os
import uuid
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def swap(new: Path, final: Path) -> Path:
    """Put ``new`` where ``final`` is. Returns where the old one is now. Raises OSError; both are as they were then.

    Linux exchanges them at once. Elsewhere there is a moment in which neither is there.
    """
    if _exchanged(new, final):
        return new
    old = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.old")
    try:
        os.replace(final, old)
        os.replace(new, final)
    except BaseException:
        if os.path.lexists(old) and not os.path.lexists(final):
            os.replace(old, final)
        raise
    return old


def _exchanged(one: Path, other: Path) -> bool:
    """Whether the system could do so: renameat2(2)."""
    try:
        function = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    return bool(function(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
