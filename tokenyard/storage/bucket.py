"""Files of one corpus below a URL.

Nothing is asked of the store that needn't be: of a corpus with a manifest (or MDS's ``index.json``) files are known by
it, so nothing is listed and no file is asked for before it is read; else there is one listing. What a file is (its size
and etag) comes with the first of its bytes; a file that changes afterwards is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import blake3
import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import DataError, StorageError
from tokenyard.manifest import HOME, FileInfo, check_name
from tokenyard.storage.cache import CachedFile, FolderCache
from tokenyard.storage.cells import Cells
from tokenyard.storage.folder import Folder, natural_order
from tokenyard.storage.object_file import ObjectFile
from tokenyard.storage.object_path import ObjectPath
from tokenyard.storage.objects import ObjectInfo, Objects, open_objects
from tokenyard.storage.raw_file import ReadMode

_HASH_BYTES = 16 << 20
#: So many objects are asked for one by one.
_FEW = 30


class Bucket(Folder):
    """A folder of objects. Its paths are URLs; its raw files are read by ranges. Safe in threads, and to pickle."""

    asks_cheaply = False

    def __init__(self, url: str, objects: Objects | None = None, cache: FolderCache | None = None) -> None:
        self.objects = open_objects(url) if objects is None else objects
        self.url = self.objects.url
        self.path = ObjectPath(self)  # type: ignore[assignment]  # what is local asks for a path, and isn't used here
        self.read_mode: ReadMode = "pread"
        self._listed: dict[str, ObjectInfo] = {}
        self._etags: dict[str, str | None] = {}
        self._voucher: ObjectInfo | None = None
        self._cells: Mapping[str, Cells | None] = {}
        # Sizes that manifests promise, and that are checked as bytes come.
        self._promised: dict[str, int] = {}
        self.read_through(cache)
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"objects": self.objects, "listed": self._listed, "voucher": self._voucher, "cache": self.cache}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__("", state["objects"], state["cache"])  # type: ignore[misc]  # opens anew where it arrives
        self._listed, self._voucher = state["listed"], state["voucher"]

    def __repr__(self) -> str:
        return f"Bucket({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bucket) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    @property
    def identity(self) -> str:
        """The URL."""
        return self.url

    def at(self, name: str) -> ObjectPath:  # type: ignore[override]  # see above
        """The place of an object. Raises DataError for a name that leads outside."""
        check_name(name)
        return ObjectPath(self, name)

    def exists(self, name: str) -> bool:
        """Whether there is an object of that name; asked anew each time."""
        check_name(name)
        return self.objects.head(name) is not None

    def size(self, name: str) -> int:
        """Bytes of an object. Raises StorageError when it is missing; with a cache, that is seen as it is read."""
        if self.cache is not None and (promised := self._promised.get(name)) is not None:
            return promised
        return self._info(name).bytes

    def modified(self, name: str) -> int | str:
        """What changes when an object does: its etag, or that of the file that names it and was read."""
        info = self._listed.get(name) or self._voucher or self._info(name)
        return info.etag or info.modified_ns

    def states(self, names: Sequence[str]) -> list[int | str | None]:
        """What changes when objects do, asked anew; None for one that is gone.

        Of many by one listing; where there is none, by the file that names them.
        """
        if len(names) <= _FEW or not (self.objects.lists or self._voucher):
            found = {name: self.objects.head(name) for name in names}
        elif self.objects.lists:
            found = {info.name: info for info in self.objects.list()}
        else:
            found = dict.fromkeys(names, self._voucher and self.objects.head(self._voucher.name))
        infos = map(found.get, names)
        return [None if info is None else info.etag or info.modified_ns for info in infos]

    def list(self) -> list[str]:
        """Names of all objects in natural order, but for hidden ones and corpora inside. One listing."""
        found = {info.name: info for info in self.objects.list() if info.name and not info.name.endswith("/")}
        corpora = tuple(n.partition(f"/{HOME}/")[0] + "/" for n in found if f"/{HOME}/" in n)
        self._listed = {
            name: info
            for name, info in found.items()
            if not any(part.startswith(".") for part in name.split("/")) and not name.startswith(corpora)
        }
        return sorted(self._listed, key=natural_order)

    def read(self, name: str, max_bytes: int = -1) -> bytes:
        """All bytes of an object, or its first ``max_bytes``."""
        check_name(name)
        if self.cache is not None and max_bytes >= 0 and (promised := self._promised.get(name)) is not None:
            return self.raw(name, promised).read(0, min(max_bytes, promised)).tobytes()
        if max_bytes < 0:
            return self._get(name, 0, None)[0].tobytes()
        if (size := self.size(name)) == 0:
            return b""
        return self._get(name, 0, min(max_bytes, size))[0].tobytes()

    def read_voucher(self, name: str) -> bytes | None:
        """The bytes of a file that names all others, which are known by it from now on; None where there is none."""
        info = self.objects.head(name)
        if info is None:
            return None
        data, self._voucher = self.objects.get(name, 0, info.bytes, etag=info.etag) if info.bytes else (b"", info)
        return bytes(data)

    def forget_voucher(self) -> None:
        """Files are known by themselves."""
        self._voucher = None

    def map(self, name: str, expected_bytes: int | None = None) -> NDArray[np.uint8]:
        """An object as a whole in memory. Raises DataError when its size is not ``expected_bytes``."""
        size = self.size(name) if expected_bytes is None else expected_bytes
        return self.raw(name, size).read(0, size)

    def raw(self, name: str, expected_bytes: int) -> RemoteFile | CachedFile:  # type: ignore[override]  # offers the same
        """An object to be read by ranges, through the cache where there is one; nothing is asked yet."""
        file = RemoteFile(self, name, expected_bytes)
        self._promised[name] = expected_bytes
        if self.cache is None:
            return file
        return self.cache.file(name, file.path, expected_bytes, file.read, self._cells.get(name))

    def read_listed(self, file: FileInfo) -> bytes:
        """All bytes of a small object that a manifest names; those of the cache, where there is one."""
        if self.cache is None:
            return self.read(file.name)
        return self.cache.whole(file, self.at(file.name), lambda: self.read(file.name))

    def read_through(self, cache: FolderCache | None) -> None:
        """From now on, read shards and row indexes through a cache."""
        self.cache = cache
        self.range_bytes = None if cache is None else cache.range_bytes

    def knowing(self, cells: Mapping[str, Cells | None]) -> Bucket:
        """The same bucket, told the checksums of the cells of some files, by which a cache checks what it fetches."""
        if self.cache is None:
            return self
        other = object.__new__(Bucket)
        other.__dict__ = {**self.__dict__, "_cells": cells}
        return other

    def open(self, name: str) -> ObjectFile:
        """An object as a file. Raises StorageError when there is none."""
        return ObjectFile(self.raw(name, self.size(name)))

    def checksum(self, name: str, expected_bytes: int) -> str:
        """The checksum of an object, which is fetched in pieces. Raises DataError when it has another size."""
        raw, found = self.raw(name, expected_bytes), blake3.blake3()
        for start in range(0, expected_bytes, _HASH_BYTES) or range(1):
            found.update(raw.read(start, min(start + _HASH_BYTES, expected_bytes)).data)
        return f"blake3:{found.hexdigest()}"

    def _info(self, name: str) -> ObjectInfo:
        check_name(name)
        info = self._listed.get(name) or self.objects.head(name)
        if info is None:
            raise StorageError(f"can't read {self.at(name)}: no such object; check the URL, or restore the object")
        return info

    def _get(self, name: str, start: int, stop: int | None) -> tuple[NDArray[np.uint8], ObjectInfo]:
        """Bytes of an object that is the one that was read before, or listed. The one place where bytes come from."""
        etag = self._etags.get(name)
        if etag is None and name in self._listed:
            etag = self._listed[name].etag
        data, info = self.objects.get(name, start, stop, etag=etag)
        with self._lock:
            self._etags.setdefault(name, info.etag)
        return data, info


class RemoteFile:
    """An object of ``num_bytes``, read by ranges, each new memory. Safe in several threads."""

    mapped = False
    range_bytes: int | None = None

    def __init__(self, bucket: Bucket, name: str, num_bytes: int) -> None:
        self.path = bucket.at(name)
        self.num_bytes = num_bytes
        self._bucket = bucket
        self._name = name

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]: these bytes; not to be written to.

        Raises DataError for an object that has another size than promised, or was replaced, StorageError for one that
        can't be read.
        """
        if not 0 <= start <= stop <= self.num_bytes:
            raise DataError(f"{self.path}: no bytes {start} .. {stop} in an object of {self.num_bytes}")
        if start == stop:
            if self.num_bytes == 0 and (size := self._bucket.size(self._name)) != 0:
                raise self._other_size(size)
            return np.empty(0, np.uint8)
        data, info = self._bucket._get(self._name, start, stop)
        if info.bytes != self.num_bytes:
            raise self._other_size(info.bytes)
        return data

    def _other_size(self, size: int) -> DataError:
        return DataError(f"{self.path}: {size} bytes, expected {self.num_bytes}; it was cut or replaced, restore it")
