"""Leases on objects: who works where no file can be locked, told without anybody's clock.

The owner of a lease replaces its object again and again, each time by other bytes. Who finds one watches it for as long
as a lease lasts: if it stays the same, its owner is dead. Times that machines or stores tell are not compared, since
they differ; what that costs is the watching, once, after an owner that could not give its lease back. A store replaces
an object only where it is still the one that was seen, so of several who take a lease over one gets it, and an owner
that was taken for dead finds out.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tokenyard.errors import StorageError
from tokenyard.storage.objects import ObjectInfo, Objects

#: How long a lease lasts that is not renewed; it is renewed three times as often.
LEASE_SECONDS = 30.0
_KEY = "lease"
#: How often an object is looked for that is not there, and then is.
_LOOKS = 3


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An object as it was found: what it says, and its owner while somebody has a lease on it."""

    etag: str
    said: Mapping[str, Any]
    owner: str | None


class Lease:
    """A lease that this process has; a thread renews it until ``release`` or ``end``."""

    def __init__(self, objects: Objects, name: str, said: Mapping[str, Any], over: str | None = None) -> None:
        """Take a lease where no object is, or over the one with that etag. Raises TakenError, StorageError."""
        self._objects, self._name, self._said = objects, name, said
        self._owner = uuid.uuid4().hex
        self._renewals = 0
        body = self._body()
        etag = objects.put_new(name, body) if over is None else objects.put_if(name, body, over)
        if etag is None:
            raise TakenError(f"{objects.url}/{name}: somebody else was quicker")
        self._etag = etag
        self._is_lost = False
        self._seconds = LEASE_SECONDS
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="tokenyard-lease")
        self._thread.start()

    def is_kept(self) -> bool:
        """Whether nobody has taken it over, as the store says now. Raises StorageError."""
        with self._lock:
            self._renew()
            return not self._is_lost

    @property
    def is_lost(self) -> bool:
        """Whether somebody has taken it over, as the last renewal found. Asks nothing."""
        return self._is_lost

    def release(self) -> None:
        """Give the lease back; what its object says stays."""
        if self._stopped() and not self._is_lost:
            with suppress(StorageError):  # then it runs out by itself
                self._objects.put_if(self._name, _bytes(self._said), self._etag)

    def end(self) -> None:
        """Give the lease back, and remove its object. Raises StorageError."""
        if self._stopped() and self.is_kept():  # asked now: a process that slept may not know yet
            self._objects.remove(self._name)

    def _stopped(self) -> bool:
        """Stop renewing. Whether that had not been done before."""
        if self._ended.is_set():
            return False
        self._ended.set()
        self._thread.join()
        return True

    def _keep(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            with self._lock, suppress(StorageError):  # a store that is away for a while is asked again
                self._renew()

    def _renew(self) -> None:
        if self._is_lost:
            return
        self._renewals += 1
        etag = self._objects.put_if(self._name, self._body(), self._etag)
        if etag is None:
            # Of an earlier renewal only the answer may have been lost.
            found = look(self._objects, self._name)
            self._is_lost = found is None or found.owner != self._owner
            etag = found.etag if found else self._etag
        self._etag = etag

    def _body(self) -> bytes:
        return _bytes({**self._said, _KEY: {"owner": self._owner, "renewals": self._renewals}})


class TakenError(StorageError):
    """Somebody else has the lease."""


def look(objects: Objects, name: str) -> Seen | None:
    """What an object says that may have a lease; None where there is none. Raises StorageError."""
    if (found := _found(objects, name)) is None:
        return None
    data, info = found
    try:
        said = json.loads(bytes(data))
    except ValueError:
        said = {}
    said = said if isinstance(said, dict) else {}
    lease = said.pop(_KEY, None)
    return Seen(etag=info.etag or "", said=said, owner=lease.get("owner") if isinstance(lease, dict) else None)


def _found(objects: Objects, name: str) -> tuple[Any, ObjectInfo] | None:
    attempts = 0
    while True:
        attempts += 1
        try:
            return objects.get(name)
        except StorageError:
            if objects.head(name) is None:
                return None
            if attempts == _LOOKS:  # else somebody may have made it between the two questions
                raise


def write_free(objects: Objects, name: str, said: Mapping[str, Any], over: str | None = None) -> bool:
    """Write an object that nobody has a lease on, where none is, or over one. Whether nobody was quicker."""
    body = _bytes(said)
    return (objects.put_new(name, body) if over is None else objects.put_if(name, body, over)) is not None


def takeable(objects: Objects, name: str) -> Seen | None:
    """An object whose lease is free, or its owner's who is dead; None where there is none.

    Waits as long as a lease lasts where there is one. Raises TakenError where its owner lives, StorageError.
    """
    before = look(objects, name)
    if before is None or before.owner is None:
        return before

    def now() -> dict[str, str]:
        seen = look(objects, name)
        return {name: seen.etag} if seen is not None and seen.owner is not None else {}

    is_dead = are_dead(now, objects.url)
    after = look(objects, name)
    if not is_dead or (after is not None and after.owner is not None and after.etag != before.etag):
        raise TakenError(f"{objects.url}/{name}: its owner is at work")
    return after


def are_dead(now: Callable[[], Mapping[str, str]], place: str) -> bool:
    """Whether no lease is renewed while one lasts, or all are given back.

    ``now``: etags of leases by their names. ``place``: for a warning to who has to wait.
    """
    before = now()
    if before:
        warnings.warn(
            f"{place}: somebody is at work there, or was killed; watching for up to {LEASE_SECONDS:g} s which it is",
            stacklevel=3,
        )
    until = time.monotonic() + LEASE_SECONDS
    current = before
    while current and time.monotonic() < until:
        time.sleep(LEASE_SECONDS / 20)
        current = now()
        if current.items() - before.items():
            return False
    return True


def _bytes(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True, indent=1).encode() + b"\n"
