"""Opening files for reading, and nothing else that a name may lead to.

A named pipe would wait for a writer for ever, and a device may give bytes without end. Links are followed.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

from tokenyard.storage.object_path import ObjectPath


def open_regular(path: str | os.PathLike[str] | ObjectPath) -> BinaryIO:
    """A file, open for reading in binary; of an object, what reads it. Raises OSError, for what is no file too."""
    if isinstance(path, ObjectPath):
        return cast(BinaryIO, path.open())
    return open(open_handle(path), "rb")


def open_handle(path: str | os.PathLike[str]) -> int:
    """The descriptor of a file, open for reading. Raises OSError, for what is no file too."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # of a pipe, not to wait for its other end
    try:
        check_regular(os.fstat(handle), path)
    except OSError:
        os.close(handle)
        raise
    return handle


def check_regular(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Raise OSError for a folder, a pipe, a socket or a device."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(Path(path)))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "a pipe, a socket or a device, where a file should be; remove it", str(Path(path)))
