"""A bounded cache of pieces of remote files in one folder, shared by all processes of a node.

A piece appears by rename, so there is no half of one. It is fetched by whoever comes first, who holds the lock of its
``.part`` meanwhile; others wait for the lock, and go on with the fetching where its owner died. Readers read what they
opened, whether or not it is evicted meanwhile. Nothing is kept but files: no named memory, no server, no lock file
that means something without a living owner.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import StorageError
from tokenyard.storage.cache.counts import Counters
from tokenyard.storage.cache.eviction import LookAhead
from tokenyard.storage.cache.locks import is_at, locked
from tokenyard.storage.cache.names import Piece, pieces_of
from tokenyard.storage.cache.room import Room
from tokenyard.storage.errors import storage_error

#: How long a process waits for another one's fetching, or for the folder's total, before it says so.
WAIT_SECONDS = 600.0
#: The next use of what somebody waits for.
_NOW = -1

#: Fetches the bytes of a piece.
Fetch = Callable[[], Any]


class DiskCache:
    """See the module. Picklable; safe in threads and after a fork.

    Args:
        home: its folder, made where it is not there; on a local disk.
        max_bytes: the most that all pieces take together, those being fetched included.
        wait_seconds: the longest wait for another process.

    Attributes:
        counters: what is counted.

    Raises:
        StorageError: the folder can't be used; the message says why.
    """

    def __init__(self, home: str | os.PathLike[str], max_bytes: int, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.home = Path(home).expanduser().absolute()
        self._home = os.fspath(self.home)
        self.max_bytes = max_bytes
        self.wait_seconds = wait_seconds
        self.counters = Counters()
        self._room = Room(self.home, max_bytes, wait_seconds)
        try:
            for name in ("pieces", "kept"):
                (self.home / name).mkdir(parents=True, exist_ok=True)
            self._room.recount()
        except OSError as e:
            if isinstance(e, StorageError):
                raise
            raise storage_error(e, f"can't keep a cache in {self.home}") from e

    def __repr__(self) -> str:
        return f"DiskCache({str(self.home)!r}, {self.max_bytes} bytes)"

    def find(self, file: str, start: int, stop: int) -> Piece | None:
        """Return a piece that holds a range of a file, if there is one."""
        for kept in (False, True):
            for piece in pieces_of(self.home, file, kept):
                if piece.start <= start and stop <= piece.stop:
                    return piece
        return None

    def has(self, piece: Piece) -> bool:
        """Whether a piece is there, whole."""
        # Asked for each order block of each batch: paths of strings take a third of the time.
        try:
            return os.stat(f"{self._home}/{piece.name}").st_size == piece.num_bytes
        except FileNotFoundError:
            return False

    def read(self, file: str, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return a range of a file, uint8[stop - start], if a piece holds it."""
        while (piece := self.find(file, start, stop)) is not None:
            if (data := self._read(piece, start, stop)) is not None:
                return data
        return None

    def fill(self, piece: Piece, fetch: Fetch) -> Any:
        """Have a piece in the cache that somebody waits for, as ``fill_all`` does.

        Returns what ``fetch`` gave; None where the piece is there already, or there is no room for it.
        """
        given: list[Any] = []

        def fetched() -> Any:
            given.append(fetch())
            return given[0]

        self.fill_all([(piece, fetched)])
        return given[0] if given else None

    def fill_all(
        self,
        wanted: Sequence[tuple[Piece, Fetch]],
        *,
        before: int = _NOW,
        look_ahead: LookAhead | None = None,
        has_room: Callable[[], None] | None = None,
    ) -> bool:
        """Have pieces in the cache: all that are not there are fetched; what other processes are at, is waited for.

        Args:
            wanted: pieces, and what gives their bytes; what that raises is raised.
            before: when they are used; nothing is evicted for them that is used by then.
            look_ahead: when pieces are used; where not given, those that came first are evicted first.
            has_room: called when there is room for all, before any comes.

        Returns:
            Whether they are there; they are not where there is no room for all of them.

        Raises:
            StorageError: the disk can't be written, or another process took too long.
        """
        missing = [(piece, fetch) for piece, fetch in wanted if not self.has(piece)]
        if not missing:
            return True
        # All take locks in the same order, so that no two wait for each other.
        missing.sort(key=lambda one: one[0].path(self.home))
        try:
            with ExitStack() as stack:
                held = [(stack.enter_context(self._part_locked(piece)), piece, fetch) for piece, fetch in missing]
                stack.callback(lambda: _remove_all((handle, piece.part(self.home)) for handle, piece, _ in held))
                return self._fetched_into(held, before, look_ahead, has_room)
        except OSError as e:
            if isinstance(e, StorageError):
                raise
            raise storage_error(e, f"can't write the cache in {self.home}") from e

    def _fetched_into(
        self,
        held: Sequence[tuple[int, Piece, Fetch]],
        before: int,
        look_ahead: LookAhead | None,
        has_room: Callable[[], None] | None,
    ) -> bool:
        # Others may have fetched some while their locks were waited for.
        missing = [one for one in held if not self.has(one[1])]
        if not self._room.take([(handle, piece.num_bytes) for handle, piece, _ in missing], before, look_ahead):
            return False
        coming = sum(piece.num_bytes for _, piece, _ in missing)
        try:
            if has_room is not None:
                has_room()
            for handle, piece, fetch in missing:
                _write_all(handle, fetch())
                self._room.publish(piece.part(self.home), piece.path(self.home))
                coming -= piece.num_bytes
        finally:
            if coming:
                self._room.give_back(coming)
        return True

    def _part_locked(self, piece: Piece) -> AbstractContextManager[int]:
        part = piece.part(self.home)
        what = f"bytes {piece.start} .. {piece.stop} of a shard are being fetched"
        part.parent.mkdir(parents=True, exist_ok=True)
        return locked(part, self.wait_seconds, what)

    def _read(self, piece: Piece, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return bytes of a piece; None where it is gone, or has another size than its name says and so goes."""
        path = piece.path(self.home)
        data = np.empty(stop - start, np.uint8)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe is no piece, and not waited for
        except FileNotFoundError:
            return None
        except OSError as e:
            raise storage_error(e, f"can't read the cache in {self.home}") from e
        try:
            if os.fstat(handle).st_size != piece.num_bytes:
                self.drop(piece)
                return None
            view, found = data.data, 0
            while found < len(data):
                if (count := os.preadv(handle, [view[found:]], start - piece.start + found)) == 0:
                    return None
                found += count
        finally:
            os.close(handle)
        return data

    def drop(self, piece: Piece) -> None:
        """Remove a piece."""
        self._room.remove(piece)

    def timed(self, fetch: Fetch) -> Any:
        """Do something that a reader waits for, and count how long it took."""
        begin = time.monotonic_ns()
        try:
            return fetch()
        finally:
            self.counters.add(waits=1, wait_ns=time.monotonic_ns() - begin)


def _write_all(handle: int, data: Any) -> None:
    view = memoryview(data).cast("B")
    at = 0
    while at < len(view):
        at += os.pwrite(handle, view[at:], at)


def _remove_all(parts: Iterable[tuple[int, Path]]) -> None:
    """Remove what is still there of files whose locks are held; where one is published, its name may be another's."""
    for handle, path in parts:
        if is_at(handle, path):
            with suppress(FileNotFoundError):
                path.unlink()
