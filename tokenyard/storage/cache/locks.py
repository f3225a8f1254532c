"""Locks on files that end with their owner: the kernel frees them when a process dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tokenyard.errors import StorageError

_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.05

#: Files whose locks this process holds. A lock belongs to the open file, which a fork would share.
_held: set[int] = set()


def _close_held() -> None:
    while _held:
        with suppress(OSError):
            os.close(_held.pop())


os.register_at_fork(after_in_child=_close_held)


def try_lock(handle: int) -> bool:
    """Take the lock of an open file, if nobody has it. Raises OSError where a file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    _held.add(handle)
    return True


def release(handle: int) -> None:
    """Close a file, and end its lock if it was taken."""
    _held.discard(handle)
    # A child that was forked between the opening and the locking may have it open still.
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextmanager
def locked(path: Path, seconds: float, what: str) -> Iterator[int]:
    """Hold the lock of a file, which is made where it is not there, and give its descriptor.

    Of a file that another one has replaced or removed meanwhile, the lock counts for nothing: the one at the path is
    taken. Raises StorageError after ``seconds`` in which somebody else held it, OSError.
    """
    until, wait = time.monotonic() + seconds, _FIRST_WAIT
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while not try_lock(handle):
                if time.monotonic() >= until:
                    raise StorageError(
                        f"{path}: {what}: another process has held the lock for {seconds:g} s; see what keeps it (lsof "
                        f"{path}), or give this run a cache folder of its own"
                    )
                time.sleep(random.uniform(wait / 2, wait))
                wait = min(2 * wait, _LONGEST_WAIT)
            if is_at(handle, path):
                yield handle
                return
        finally:
            release(handle)


def is_at(handle: int, path: Path) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def remove_if_dead(path: Path) -> bool:
    """Remove a file whose owner holds its lock no more. Returns whether the owner lives."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not try_lock(handle):
            return True
        if is_at(handle, path):
            with suppress(FileNotFoundError):
                path.unlink()
        return False
    finally:
        release(handle)
