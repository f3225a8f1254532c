"""The bytes of a cache folder, counted over all processes, and what makes room.

The total stands in the file ``room``, which is changed under its lock alone. Bytes are added before they are written
and taken off after they are gone; so a process that dies in between leaves too high a total and never too low a one.
Whoever needs room counts what is there anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from tokenyard.storage.cache.eviction import LookAhead, Outlook, to_evict
from tokenyard.storage.cache.locks import locked, remove_if_dead
from tokenyard.storage.cache.names import Piece, all_pieces

#: What the total takes of the file ``room``; behind it stands the start of the machine that pieces are of.
_TOTAL_BYTES = 21


class Room:
    """At most ``max_bytes`` below ``home``. Methods raise OSError, and StorageError after ``seconds`` of waiting."""

    def __init__(self, home: Path, max_bytes: int, seconds: float) -> None:
        self._home = home
        self._max_bytes = max_bytes
        self._seconds = seconds

    def recount(self) -> int:
        """Count what is there, and remove what dead processes left half-fetched. Returns the bytes.

        What was there when the machine was started is removed too: pieces are not synced, so after a crash of the
        machine one may have its size and none of its bytes.
        """
        with self._locked() as handle:
            pieces, total = self._count()
            boot = _boot_id()
            if os.pread(handle, len(boot) + 1, _TOTAL_BYTES) != boot:
                for piece in pieces:
                    with suppress(FileNotFoundError):
                        piece.path(self._home).unlink()
                    total -= piece.num_bytes
                os.ftruncate(handle, 0)
                os.pwrite(handle, boot, _TOTAL_BYTES)
            _write(handle, total)
            return total

    def take(self, files: Sequence[tuple[int, int]], before: int, look_ahead: LookAhead | None) -> bool:
        """Add bytes to the total, evicting where there is no room. Returns whether there is.

        Args:
            files: open files that will be written to, and their sizes, which they get at once: by these they count.
            before: the next use of what is to come. What is used by then stays.
            look_ahead: when pieces are used; where not given, those that came first go.
        """
        num_bytes = sum(size for _, size in files)
        if num_bytes > self._max_bytes:
            return False
        with self._locked() as room:
            total = _read(room)
            if total + num_bytes > self._max_bytes:
                pieces, total = self._count()
                # What is being fetched for others counts in the total, and can't be evicted.
                total -= self._evict(pieces, total + num_bytes - self._max_bytes, before, look_ahead)
            fits = total + num_bytes <= self._max_bytes
            _write(room, total + num_bytes if fits else total)
            for handle, size in files if fits else ():
                os.ftruncate(handle, size)
            return fits

    def publish(self, part: Path, path: Path) -> None:
        """Give a piece its name; under the lock, so that whoever counts sees it once."""
        with self._locked():
            os.rename(part, path)

    def remove(self, piece: Piece) -> None:
        """Remove a piece, if it is there; under the lock, so that whoever counts doesn't take it off once more."""
        with self._locked() as handle:
            try:
                piece.path(self._home).unlink()
            except FileNotFoundError:
                return
            _write(handle, max(0, _read(handle) - piece.num_bytes))

    def give_back(self, num_bytes: int) -> None:
        """Take bytes off the total that were not written after all."""
        with self._locked() as handle:
            _write(handle, max(0, _read(handle) - num_bytes))

    def _evict(self, pieces: list[Piece], num_bytes: int, before: int, look_ahead: LookAhead | None) -> int:
        """Remove pieces, the one used last first, where that makes enough room. Returns the bytes removed."""
        if num_bytes <= 0:
            return 0
        if look_ahead is not None:
            outlook = look_ahead(pieces, before)
        else:
            outlook = Outlook.of(np.array([_age(piece.path(self._home)) for piece in pieces], np.int64))
        evicted = 0
        for piece in to_evict(pieces, outlook, num_bytes, before):
            with suppress(FileNotFoundError):
                piece.path(self._home).unlink()
            evicted += piece.num_bytes
        return evicted

    def _count(self) -> tuple[list[Piece], int]:
        """The pieces that are there, and the bytes of these and of those that living processes fetch."""
        whole, parts = all_pieces(self._home)
        fetched = sum(_size(path) for _, path in parts if remove_if_dead(path))
        return whole, fetched + sum(piece.num_bytes for piece in whole)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        with locked(self._home / "room", self._seconds, "making room in the cache") as handle:
            yield handle


def _age(path: Path) -> int:
    """Nanoseconds since a piece came."""
    with suppress(OSError):
        return max(0, time.time_ns() - os.stat(path).st_mtime_ns)
    return 0


def _size(path: Path) -> int:
    with suppress(OSError):
        return os.stat(path).st_size
    return 0


def _read(handle: int) -> int:
    text = os.pread(handle, _TOTAL_BYTES, 0)
    try:
        return int(text)
    except ValueError:
        return 1 << 62 if text else 0  # counted anew where it is damaged


def _write(handle: int, total: int) -> None:
    # One write of one length, so that a process which dies leaves the number before or the number after.
    os.pwrite(handle, f"{total:0{_TOTAL_BYTES - 1}d}\n".encode(), 0)


def _boot_id() -> bytes:
    """What tells one start of the machine from another; nothing where the system doesn't say."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return b""
