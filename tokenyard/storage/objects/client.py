"""The client of object stores, whatever the store."""

from __future__ import annotations

import os
import threading
from typing import IO, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import StorageError
from tokenyard.storage.objects.direct import PIECE_BYTES, Direct
from tokenyard.storage.objects.forked import Delegate, is_forked, take_process
from tokenyard.storage.objects.hub import at_commit
from tokenyard.storage.objects.info import ObjectInfo
from tokenyard.storage.objects.patience import Patience, patience_of_environment
from tokenyard.storage.objects.stores import require
from tokenyard.storage.objects.urls import split_url

#: So that threads which make the first call together read the same.
_making = threading.RLock()


def _renew_lock() -> None:
    global _making
    _making = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


class Objects:
    """All objects below a URL, made by ``open_objects``. Safe in threads, after a fork, and to pickle.

    Names are relative to the URL, with slashes. Every call raises StorageError that names the object, the attempts,
    the cause and the way out; none takes longer than the deadline of ``patience`` (for a large object: of each piece of
    it).
    """

    def __init__(self, url: str, patience: Patience, commit: str | None = None) -> None:
        scheme, colon, rest = url.partition("://")
        self.url = scheme.lower() + colon + rest.rstrip("/")
        self.patience = patience
        # What a branch of the Hub was at when the first call was made; copies in other processes read the same.
        self._commit = commit
        self._pid = os.getpid()
        self._calls: Direct | Delegate | None = None

    def __repr__(self) -> str:
        return f"Objects({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        if self.url.startswith("memory:"):
            raise StorageError(
                f"{self.url}: the memory of one process, which no other process sees; use a folder or s3://"
            )
        return {"url": self.url, "patience": self.patience, "commit": self._commit}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # opens anew where it arrives

    @property
    def lists(self) -> bool:
        """Whether objects can be listed; web servers don't."""
        return not self.url.startswith(("http:", "https:"))

    def url_of(self, name: str) -> str:
        """The URL of an object; of one on a branch of the Hub, by the commit that is read, once a call was made."""
        base = self.url if self._commit is None else at_commit(self.url, split_url(self.url), self._commit)
        return f"{base}/{quote(name)}"

    def head(self, name: str) -> ObjectInfo | None:
        """What an object is, without its bytes; None where there is none."""
        return self._direct.head(name)

    def read(self, name: str, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> NDArray[np.uint8]:
        """uint8[stop - start]: bytes of an object, fewer only where it ends before; without ``stop`` all that follow.

        ``etag``: raises DataError where the object is no longer the one of that etag.
        """
        return self.get(name, start, stop, etag=etag)[0]

    def get(
        self, name: str, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> tuple[NDArray[np.uint8], ObjectInfo]:
        """As ``read``, and what the object is that the bytes are of; not for no bytes at all."""
        if stop is None or stop - start <= PIECE_BYTES:
            data, info = self._direct.get(name, start, stop, etag)
            return np.frombuffer(data, np.uint8), info
        whole = np.empty(stop - start, np.uint8)
        found = 0
        while True:
            part, info = self._direct.get(name, start + found, min(start + found + PIECE_BYTES, stop), etag)
            whole[found : found + len(part)] = np.frombuffer(part, np.uint8)
            found += len(part)
            etag = info.etag
            if start + found >= min(stop, info.bytes):
                return whole[:found], info

    def fetch(self, name: str, file: IO[bytes], *, etag: str | None = None) -> int:
        """Write a whole object into a file, a piece after another. Returns its bytes; ``etag`` as in ``read``."""
        info = self.head(name)
        if info is None:
            raise StorageError(
                f"can't read {self.url}/{name}: no such object; check the URL, and whether the upload has ended"
            )
        for start in range(0, info.bytes, PIECE_BYTES):
            file.write(self.read(name, start, min(start + PIECE_BYTES, info.bytes), etag=etag or info.etag).data)
        return info.bytes

    def put(self, name: str, data: Any) -> str:
        """Upload bytes, or a binary file that can seek, from its begin; the object appears whole. Returns its etag."""
        return self._direct.put(name, data)

    def put_new(self, name: str, data: bytes) -> str | None:
        """Upload bytes where no object of that name is. Returns the etag; None where there is one.

        Of several that do so at once, one gets an etag. ``data`` should be the caller's alone: where an answer was
        lost, an object with these bytes is taken for the caller's.
        """
        return self._direct.put_new(name, data)

    def put_if(self, name: str, data: bytes, etag: str) -> str | None:
        """Upload bytes in place of the object with that etag. Returns the new etag.

        None where the object has another, or is gone; ``data`` as in ``put_new``.
        """
        return self._direct.put_if(name, data, etag)

    def list(self, prefix: str = "") -> list[ObjectInfo]:
        """All objects below the URL, or below a folder there, in any order. Not for http(s)."""
        return self._direct.list(prefix)

    def remove(self, name: str) -> None:
        """Remove an object; fine where there is none."""
        self._direct.remove(name)

    @property
    def _direct(self) -> Direct | Delegate:
        """What makes the calls in this process, made with the first one."""
        calls = self._calls
        if calls is not None and self._pid == os.getpid():
            return calls
        with _making:
            if self._calls is None or self._pid != os.getpid():
                make = Delegate if is_forked() else Direct
                calls = make(self.url, self.patience, self._commit)
                self._commit, self._pid, self._calls = calls.commit, os.getpid(), calls
            return self._calls


def open_objects(url: str, patience: Patience | None = None) -> Objects:
    """All objects below a URL; nothing is asked yet.

    ``patience``: what ``TOKENYARD_STORAGE_DEADLINE`` says when not given. Raises ConfigError for a URL of an unknown
    scheme or without a bucket, MissingDependencyError where obstore is missing.
    """
    split_url(url)
    require(url)
    take_process()
    return Objects(url, patience or patience_of_environment())
