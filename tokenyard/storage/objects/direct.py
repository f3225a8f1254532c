"""The calls to a store, made by this process itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tokenyard.cached import cached_property
from tokenyard.errors import DataError, StorageError
from tokenyard.storage.objects import hub
from tokenyard.storage.objects.info import ObjectInfo
from tokenyard.storage.objects.patience import CutError, Patience, call
from tokenyard.storage.objects.stores import make_store
from tokenyard.storage.objects.urls import split_url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: An upload or a download of more bytes is cut into requests of as many, so that one attempt need not be long.
PIECE_BYTES = 16 << 20
_UPLOADS_AT_ONCE = 4
#: A number that no object has.
_NO_VERSION = "1"
_READ_ONLY = ("http", "https", "hf")
_T = TypeVar("_T")


class Direct:
    """What ``Objects`` offers, one request a call.

    Args:
        url: without a slash at its end.
        patience: with the store.
        commit: of the Hub, where it is known already; else the one that the URL's branch is at now.

    Raises:
        StorageError: the Hub didn't tell the commit.
    """

    def __init__(self, url: str, patience: Patience, commit: str | None = None) -> None:
        self.url = url
        self.patience = patience
        self._at = split_url(url)
        if self._at.scheme == "hf" and commit is None:
            commit = call(
                patience,
                f"can't look for the commit of {url} (a commit in the URL needs none)",
                lambda _: hub.commit_of(url, self._at, patience.stall_seconds),
            )
        self.commit = commit
        self._store, self._prefix = make_store(url, self._at, patience, commit=commit)

    @cached_property
    def _uploads(self) -> ObjectStore:
        """For uploads in parts, of which each is tried again alone."""
        return make_store(self.url, self._at, self.patience, own_retries=True)[0]

    def commit_of(self) -> str | None:
        """The commit of the Hub that is read, for a forked process."""
        return self.commit

    def get(self, name: str, start: int, stop: int | None, etag: str | None) -> tuple[Any, ObjectInfo]:
        """Bytes start .. stop of an object (to its end without ``stop``), and what it is."""
        import obstore

        # Web servers compare etags in ways of their own, if at all; the Hub lists others than it answers with.
        options: Any = {"if_match": etag} if etag and self._at.scheme not in _READ_ONLY else {}
        if start or stop is not None:
            options["range"] = {"offset": start} if stop is None else (start, stop)

        def attempt(_: int) -> tuple[Any, ObjectInfo]:
            result = obstore.get(self._store, self._key(name), options=options)
            info = self._info(result.meta, name)
            first, last = result.range
            if first != start or (stop is not None and last != min(stop, info.bytes)):
                raise CutError(f"bytes {first} .. {last} came, asked for were {start} .. {stop}")
            data = result.bytes()
            if len(data) != last - first:
                raise CutError(f"{len(data)} bytes came, asked for were {last - first}")
            if etag and info.etag and info.etag != etag and self._at.scheme != "hf":
                raise self._changed(name)
            return data, info

        return self._call("read", name, attempt)

    def head(self, name: str) -> ObjectInfo | None:
        """What an object is; None where there is none."""
        import obstore

        try:
            found = call(
                self.patience,
                f"can't look for {self._where(name)}",
                lambda _: obstore.head(self._store, self._key(name)),
            )
        except FileNotFoundError:
            return None
        return self._info(found, name)

    def put(self, name: str, data: Any) -> str:
        """Upload bytes or a file; returns the new etag."""
        import obstore

        self._check_writable(name)
        size = data.seek(0, 2) if hasattr(data, "seek") else memoryview(data).nbytes
        in_parts = size > PIECE_BYTES
        store = self._uploads if in_parts else self._store

        def attempt(_: int) -> str:
            if hasattr(data, "seek"):
                data.seek(0)
            try:
                result = obstore.put(
                    store,
                    self._key(name),
                    data,
                    use_multipart=in_parts,
                    chunk_size=PIECE_BYTES,
                    max_concurrency=_UPLOADS_AT_ONCE,
                )
            except obstore.exceptions.BaseError as e:
                if in_parts:
                    raise StorageError(self._parts_failed(name, e)) from e
                raise
            return result["e_tag"] or ""

        return self._call("write", name, attempt)

    def put_new(self, name: str, data: bytes) -> str | None:
        """Upload bytes where no object is; None where one is."""
        return self._put_where(name, data, "create")

    def put_if(self, name: str, data: bytes, etag: str) -> str | None:
        """Upload bytes over the object of that etag; None where it is another one, or none."""
        return self._put_where(name, data, {"e_tag": etag, **self._version(name, etag)})

    def _version(self, name: str, etag: str) -> dict[str, str]:
        """What Google's store needs besides the etag, since its conditions are on numbers of objects."""
        import obstore

        if self._at.scheme != "gs":
            return {}
        what = f"can't look for {self._where(name)}"
        try:
            found = call(self.patience, what, lambda _: obstore.head(self._store, self._key(name)))
        except FileNotFoundError:
            return {"version": _NO_VERSION}
        return {"version": (found["e_tag"] == etag and found["version"]) or _NO_VERSION}

    def list(self, prefix: str) -> list[ObjectInfo]:
        """All objects below a folder."""
        import obstore

        folder = "/".join(p for p in (self._prefix, prefix.strip("/")) if p)
        what = f"can't list {self._where(prefix)}"
        if self._at.scheme in ("http", "https"):
            raise StorageError(f"{what}: web servers don't list; a corpus there needs a manifest or an index.json")
        if self._at.scheme == "hf":
            listed = call(
                self.patience,
                what,
                lambda _: hub.list_files(self.url, self._at, self.commit, folder, self.patience.stall_seconds),
            )
            return [self._named(info) for info in listed]

        def attempt(_: int) -> list[ObjectInfo]:
            until = time.monotonic() + self.patience.attempt_seconds
            found: list[ObjectInfo] = []
            for page in obstore.list(self._store, prefix=folder or None, chunk_size=1000):
                if time.monotonic() > until:
                    raise CutError(
                        f"{len(found)} objects were listed in {self.patience.attempt_seconds:g} s, and more remain"
                    )
                found += [self._info(meta, meta["path"]) for meta in page]
            return found

        return [self._named(info) for info in call(self.patience, what, attempt)]

    def remove(self, name: str) -> None:
        """Remove an object; fine where there is none."""
        import obstore

        self._check_writable(name)
        try:
            call(
                self.patience,
                f"can't remove {self._where(name)}",
                lambda _: obstore.delete(self._store, self._key(name)),
            )
        except FileNotFoundError:
            return

    def _put_where(self, name: str, data: bytes, mode: Any) -> str | None:
        import obstore

        self._check_writable(name)
        attempts = 0

        def attempt(number: int) -> str:
            nonlocal attempts
            attempts = number
            return obstore.put(self._store, self._key(name), data, mode=mode, use_multipart=False)["e_tag"] or ""

        try:
            return call(self.patience, f"can't write {self._where(name)}", attempt)
        except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError, FileNotFoundError):
            if attempts > 1:
                # An attempt whose answer was lost may have done it: then what lies there is what was sent.
                found, info = self.get(name, 0, None, None)
                if bytes(found) == data:
                    return info.etag
            return None

    def _call(self, what: str, name: str, attempt: Callable[[int], _T]) -> _T:
        import obstore

        where = f"can't {what} {self._where(name)}"
        try:
            return call(self.patience, where, attempt)
        except FileNotFoundError as e:
            raise StorageError(f"{where}: no such object; check the URL, and whether the upload has ended") from e
        except obstore.exceptions.PreconditionError as e:
            raise self._changed(name) from e

    def _changed(self, name: str) -> DataError:
        return DataError(
            f"{self._where(name)}: was replaced while it was read; open the corpus again, or restore the object"
        )

    def _parts_failed(self, name: str, error: Exception) -> str:
        first = str(error).split("\n\nDebug source", 1)[0].splitlines()[0]
        return (
            f"can't write {self._where(name)}: {first} (parts were tried {self.patience.attempts} times); run it again"
        )

    def _check_writable(self, name: str) -> None:
        if self._at.scheme in _READ_ONLY:
            raise StorageError(
                f"can't write {self._where(name)}: {self._at.scheme}:// is for reading; write to s3://, gs://, az:// "
                "or to a folder, and upload that"
            )

    def _key(self, name: str) -> str:
        return "/".join(p for p in (self._prefix, name) if p)

    def _where(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def _info(self, meta: Any, name: str) -> ObjectInfo:
        modified = int(meta["last_modified"].timestamp() * 1e9)
        return ObjectInfo(name=name, bytes=meta["size"], etag=meta["e_tag"], modified_ns=modified)

    def _named(self, info: ObjectInfo) -> ObjectInfo:
        """An object by its name below the URL."""
        name = info.name[len(self._prefix) :].lstrip("/") if self._prefix else info.name
        return ObjectInfo(name=name, bytes=info.bytes, etag=info.etag, modified_ns=info.modified_ns)
