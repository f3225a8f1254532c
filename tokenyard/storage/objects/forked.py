"""Calls to a store from a process that was forked from one that had made some.

The threads that obstore works with don't live on in the child, where a call would wait for ever. So a child lets a
process of its own make the calls, begun afresh, and talks to it through a few sockets. That process ends when its
sockets are closed, which the system does however the child ends.
"""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from tokenyard.errors import StorageError
from tokenyard.storage.objects.patience import Patience

#: Calls at once; more wait for one of them to end.
_CONNECTIONS = 8
#: What a call may take beyond its deadline, for starting the process and sending bytes.
_MARGIN_SECONDS = 30.0
_first_pid: int | None = None
_helper: Helper | None = None
_lock = threading.Lock()


def take_process() -> None:
    """Remember that calls are made from this process, if none have been from it or from an ancestor."""
    global _first_pid
    if _first_pid is None:
        _first_pid = os.getpid()


def is_forked() -> bool:
    """Whether this process was forked from one that has made calls."""
    return _first_pid is not None and _first_pid != os.getpid()


class Delegate:
    """The calls of ``Direct``, made by the helper of this process."""

    def __init__(self, url: str, patience: Patience, commit: str | None = None) -> None:
        if url.startswith("memory:"):
            raise StorageError(f"{url}: the memory of one process, which no other process sees; use a folder or s3://")
        self._url = url
        self._patience = patience
        self.commit = commit
        if url.startswith("hf:") and commit is None:
            self.commit = self._ask("commit_of", ())

    def get(self, *args: Any) -> Any:
        """See Direct."""
        return self._ask("get", args)

    def head(self, *args: Any) -> Any:
        """See Direct."""
        return self._ask("head", args)

    def put(self, name: str, data: Any) -> Any:
        """See Direct; a file is read into memory."""
        if hasattr(data, "seek"):
            data.seek(0)
            data = data.read()
        return self._ask("put", (name, bytes(data)))

    def put_new(self, *args: Any) -> Any:
        """See Direct."""
        return self._ask("put_new", args)

    def put_if(self, *args: Any) -> Any:
        """See Direct."""
        return self._ask("put_if", args)

    def list(self, *args: Any) -> Any:
        """See Direct."""
        return self._ask("list", args)

    def remove(self, *args: Any) -> Any:
        """See Direct."""
        return self._ask("remove", args)

    def _ask(self, name: str, args: tuple[Any, ...]) -> Any:
        return _helper_of_process().ask(self._url, self._patience, self.commit, name, args)


class Helper:
    """A process that makes calls for this one."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.has_ended = False
        self._free: queue.Queue[Connection] = queue.Queue()
        theirs = []
        for _ in range(_CONNECTIONS):
            mine, other = socket.socketpair()
            theirs.append(other)
            self._free.put(Connection(mine.detach()))
        handles = [s.fileno() for s in theirs]
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__package__}.helper import serve; serve({handles!r})"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=handles, stdin=subprocess.DEVNULL, start_new_session=True
            )
        finally:
            for s in theirs:
                s.close()

    def ask(self, url: str, patience: Patience, commit: str | None, name: str, args: tuple[Any, ...]) -> Any:
        """What a call returns, or raise what it raises. Raises StorageError where the helper died or is stuck."""
        allowed = patience.deadline + _MARGIN_SECONDS
        try:
            connection = self._free.get(timeout=allowed)
        except queue.Empty:
            raise StorageError(f"{url}: no call could be begun in {allowed:g} s; use fewer threads") from None
        try:
            connection.send((url, patience, commit, name, args))
            if not connection.poll(allowed):
                self.has_ended = True  # for the next call: it is stuck, and this connection is lost
                raise StorageError(f"{url}: no answer from the process that makes calls in {allowed:g} s; run it again")
            fine, value = connection.recv()
        except (EOFError, ConnectionError) as e:
            self.has_ended = True
            raise StorageError(f"{url}: the process that makes calls for this one has ended; run it again") from e
        else:
            self._free.put(connection)
        if not fine:
            raise value
        return value


def _helper_of_process() -> Helper:
    global _helper
    with _lock:
        if _helper is None or _helper.pid != os.getpid() or _helper.has_ended:
            _helper = Helper()
        return _helper


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # Another thread of the parent may have held it.
    os.register_at_fork(after_in_child=_renew_lock)
