"""Files of one corpus on a local disk: read whole, mapped, or published atomically.

A file is written under ``.tokenyard/tmp/`` and renamed into place when it is whole, so no reader ever sees half of one.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import blake3
import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import DataError, StorageError
from tokenyard.manifest import HOME, FileInfo, check_name
from tokenyard.storage.maps import map_file

_TEMP = f"{HOME}/tmp"
_DIGITS = re.compile(r"([0-9]+)")


class Folder:
    """A local folder that holds a corpus, or a single file seen as a folder with that file in it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Folder({str(self.path)!r})"

    def at(self, name: str) -> Path:
        """The path of a file of the corpus. Raises DataError for a name that leads outside."""
        check_name(name)
        return self.path / name

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self.at(name).is_file()

    def size(self, name: str) -> int:
        """Bytes of a file. Raises StorageError when it is missing."""
        try:
            return self.at(name).stat().st_size
        except OSError as e:
            raise storage_error(e, f"can't read {self.at(name)}") from e

    def modified(self, name: str) -> int:
        """When a file was last changed, in nanoseconds. Raises StorageError when it is missing."""
        try:
            return self.at(name).stat().st_mtime_ns
        except OSError as e:
            raise storage_error(e, f"can't read {self.at(name)}") from e

    def list(self) -> list[str]:
        """Names of all files in natural order; hidden files and folders left out.

        Natural order takes a run of digits as a number, ``tokens_2`` before ``tokens_10``, since that is the order in
        which files numbered without leading zeros were written. Links to files are followed, links to folders are not.
        Raises StorageError for a folder that can't be listed.
        """

        def fail(error: OSError) -> None:
            raise storage_error(error, f"can't list {error.filename}") from error

        found = []
        for root, folders, files in os.walk(self.path, onerror=fail):
            # A folder with a home of its own is a corpus of its own.
            folders[:] = [f for f in folders if not f.startswith(".") and not (Path(root) / f / HOME).is_dir()]
            prefix = Path(root).relative_to(self.path)
            found += [(prefix / f).as_posix() for f in files if not f.startswith(".")]
        return sorted(found, key=natural_order)

    def read(self, name: str, max_bytes: int = -1) -> bytes:
        """All bytes of a file, or its first ``max_bytes``."""
        path = self.at(name)
        try:
            with open(path, "rb") as f:
                return f.read(max_bytes)
        except OSError as e:
            raise storage_error(e, f"can't read {path}") from e

    def map(self, name: str, expected_bytes: int | None = None) -> NDArray[np.uint8]:
        """A file as a read-only uint8 array over a memory map.

        Raises DataError when its size is not ``expected_bytes``: a map of a file that was cut would kill the process.
        """
        path = self.at(name)
        try:
            with open(path, "rb") as f:
                size = os.fstat(f.fileno()).st_size
                if expected_bytes is not None and size != expected_bytes:
                    raise DataError(
                        f"{path}: {size} bytes, expected {expected_bytes}; the file was cut or replaced, restore it"
                    )
                return map_file(f.fileno(), size)
        except OSError as e:
            raise storage_error(e, f"can't map {path}") from e

    @contextmanager
    def publish(self, name: str) -> Iterator[PublishedFile]:
        """Write a file that appears under ``name`` whole, when the block ends, or not at all.

        The file object takes ``write`` calls in order; after the block its ``info`` holds size and checksum. Raises
        StorageError (disk full, no permission) with nothing left behind.
        """
        target = self.at(name)
        temp = self.path / _TEMP / uuid.uuid4().hex
        try:
            try:
                temp.parent.mkdir(parents=True, exist_ok=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(temp, "xb") as raw:
                    file = PublishedFile(raw, name)
                    yield file
                    raw.flush()
                    os.fsync(raw.fileno())
                os.replace(temp, target)
                sync_folder(target.parent)
            except OSError as e:
                if isinstance(e, StorageError):
                    raise
                raise storage_error(e, f"can't write {target}") from e
        finally:
            with suppress(OSError):
                temp.unlink(missing_ok=True)

    def write(self, name: str, data: bytes) -> FileInfo:
        """Publish ``data`` as a file."""
        with self.publish(name) as file:
            file.write(data)
        return file.info

    def clear_temporary(self) -> None:
        """Delete what interrupted writers left behind; only for the one job that owns the folder."""
        shutil.rmtree(self.path / _TEMP, ignore_errors=True)

    def remove(self, name: str) -> None:
        """Delete a file; fine when it is not there."""
        try:
            self.at(name).unlink(missing_ok=True)
        except OSError as e:
            raise storage_error(e, f"can't remove {self.at(name)}") from e


class PublishedFile:
    """A file being written: counts and checksums what passes."""

    def __init__(self, raw: IO[bytes], name: str) -> None:
        self._raw = raw
        self._name = name
        self._hash = blake3.blake3()
        self._bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Append bytes, or anything with a buffer. Returns the number of bytes."""
        view = memoryview(data)
        if view.nbytes == 0:
            return 0
        view = view.cast("B")
        self._raw.write(view)
        self._hash.update(view)
        self._bytes += len(view)
        return len(view)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._bytes

    def flush(self) -> None:
        """Hand what is buffered to the system."""
        self._raw.flush()

    @property
    def info(self) -> FileInfo:
        """Name, size and checksum of what was written."""
        return FileInfo(name=self._name, bytes=self._bytes, checksum=f"blake3:{self._hash.hexdigest()}")


def natural_order(name: str) -> tuple[tuple[str | int, ...], str]:
    """The key that sorts names with numbers in them as a person would; ``a1`` and ``a01`` by their characters."""
    return tuple(int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(name))), name


def checksum(data: Any) -> str:
    """``blake3:<hex>`` of bytes, or of anything with a buffer."""
    return f"blake3:{blake3.blake3(data).hexdigest()}"


def storage_error(error: OSError, what: str) -> StorageError:
    """An OSError as a StorageError that says the way out."""
    advice = {
        errno.ENOSPC: "the disk is full; free space, then run the command again",
        errno.EDQUOT: "the quota is used up; free space, then run the command again",
        errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
        errno.EFBIG: "the file is larger than this system or its limits allow; use smaller shards",
        errno.EACCES: "no permission; check the owner and mode of the folder",
        errno.EPERM: "not permitted; check the owner and mode of the folder",
        errno.EROFS: "the file system is read-only; choose another folder",
        errno.ENOENT: "no such file or folder",
        errno.EEXIST: "a file is in the way where a folder should be",
        errno.ENOTDIR: "a file is in the way where a folder should be",
    }.get(error.errno or 0, error.strerror or str(error))
    return StorageError(f"{what}: {advice}")


def sync_folder(path: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_tree(path: Path) -> None:
    """Delete a folder and all in it. Raises StorageError."""
    try:
        shutil.rmtree(path)
    except OSError as e:
        raise storage_error(e, f"can't remove {path}") from e
