"""A folder of objects that a job fills."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.manifest import HOME, MANIFEST_NAME, FileInfo, check_name
from tokenyard.storage.bucket import Bucket, RemoteFile
from tokenyard.storage.cache import FolderCache
from tokenyard.storage.folder import PublishedFile, checksum, natural_order
from tokenyard.storage.lines import Lines
from tokenyard.storage.objects import ObjectInfo, Objects
from tokenyard.storage.uploads import LineObjects, upload

#: Of so many files and more, sizes are asked for by one listing of all.
_MANY = 100
#: Where an object is read in order, as one that is read back is, so much is fetched at once.
_AHEAD_BYTES = 8 << 20


class TargetBucket(Bucket):
    """A bucket in which each file appears by one upload. Nothing that was seen is remembered, since it may change.

    ``guard``: called before a small file or a line is written, as a job's manifest and its ledger are; raises where the
    job has lost its place. Told whether to ask the store. Not pickled: the process that holds the place has it.
    """

    def __init__(self, url: str, objects: Objects | None = None, cache: FolderCache | None = None) -> None:
        super().__init__(url, objects, cache)
        self.guard: Callable[[bool], None] = lambda _: None

    def exists(self, name: str) -> bool:
        """Whether there is an object of that name, asked anew."""
        check_name(name)
        return self.objects.head(name) is not None

    def below(self, name: str) -> list[str]:
        """Names of all objects in a folder and below it, hidden ones too. One listing."""
        return sorted(info.name for info in self.objects.list(name))

    def list(self) -> list[str]:
        """Names of all objects in natural order, but for hidden ones. One listing."""
        names = (info.name for info in self.objects.list())
        return sorted((n for n in names if not any(p.startswith(".") for p in n.split("/"))), key=natural_order)

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Bytes of those of the objects that are there; of many by one listing."""
        wanted = set(names)
        if len(wanted) < _MANY:
            found = [info for name in sorted(wanted) if (info := self.objects.head(name)) is not None]
        else:
            found = [info for info in self.objects.list() if info.name in wanted]
        return {info.name: info.bytes for info in found}

    def raw(self, name: str, expected_bytes: int) -> RemoteFile:  # type: ignore[override]  # as that of Bucket
        """An object to be read by ranges, in order."""
        return _ReadBack(self, name, expected_bytes)

    @contextmanager
    def publish(self, name: str) -> Iterator[PublishedFile]:
        """Write an object that appears whole, when the block ends, or not at all. Raises StorageError."""
        check_name(name)
        with upload(self.objects, name) as file:
            yield file

    def write(self, name: str, data: bytes) -> FileInfo:
        """Publish ``data`` as an object."""
        check_name(name)
        self.guard(name == MANIFEST_NAME)
        self.objects.put(name, data)
        return FileInfo(name=name, bytes=len(data), checksum=checksum(data))

    def lines(self, name: str) -> Lines:
        """New objects of lines, which are there one by one as they are added."""
        check_name(name)
        return LineObjects(self.objects, name.removesuffix(".jsonl"), lambda: self.guard(False))

    @contextmanager
    def synced_together(self) -> Iterator[None]:
        """What is uploaded is there at once."""
        yield

    def clear_temporary(self) -> None:
        """Remove what was left by a job that was killed while workers looked for it; uploads leave nothing in sight."""
        for name in self.below(f"{HOME}/tmp"):
            self.objects.remove(name)

    def remove(self, name: str) -> None:
        """Remove an object; fine when it is not there."""
        check_name(name)
        self.objects.remove(name)

    def _get(self, name: str, start: int, stop: int | None) -> tuple[NDArray[np.uint8], ObjectInfo]:
        return self.objects.get(name, start, stop)


class _ReadBack(RemoteFile):
    """An object that holds what was fetched last, and fetches more than is asked for where reading goes on there."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._held: tuple[int, NDArray[np.uint8]] = -1, np.empty(0, np.uint8)

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]; as ``RemoteFile.read``."""
        if start == stop:
            return super().read(start, stop)
        first, held = self._held
        if not first <= start < stop <= first + len(held):
            goes_on = first <= start <= first + len(held)
            ahead = min(start + _AHEAD_BYTES, self.num_bytes) if goes_on else stop
            first, held = self._held = start, super().read(start, max(stop, ahead))
        return held[start - first : stop - first]
