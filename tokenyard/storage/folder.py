"""Files of one corpus on a local disk: read whole, mapped, or published atomically.

A file is written under ``.tokenyard/tmp/`` and renamed into place when it is whole, so no reader ever sees half of one.
Links inside a corpus are read through, wherever they lead; nothing is written or removed through them.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import blake3
import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import DataError, StorageError, TokenyardError
from tokenyard.manifest import HOME, FileInfo, check_name
from tokenyard.storage.cells import CellHasher, Cells
from tokenyard.storage.errors import storage_error
from tokenyard.storage.lines import LineFile, Lines
from tokenyard.storage.raw_file import RawFile, ReadMode, map_whole
from tokenyard.storage.regular import open_regular
from tokenyard.storage.syncing import Unsynced, sync_folder
from tokenyard.storage.writeback import begin_writeback

if TYPE_CHECKING:
    from tokenyard.storage.cache import FolderCache

_TEMP = f"{HOME}/tmp"
_WRITE_BYTES = 1 << 20
_WRITEBACK_BYTES = 4 << 20
_DIGITS = re.compile(r"([0-9]+)")


class Folder:
    """A local folder that holds a corpus, or a single file seen as a folder with that file in it.

    ``read``: how the bytes of its raw shards come.
    """

    #: Whether it costs next to nothing to ask whether a file is there, and how large it is.
    asks_cheaply = True

    #: What its files are read through; nothing on a local disk.
    cache: FolderCache | None = None
    #: As that of its raw files.
    range_bytes: int | None = None

    def __init__(self, path: str | os.PathLike[str], *, read: ReadMode = "mmap") -> None:
        self.path = Path(path)
        self.read_mode: ReadMode = read
        self._unsynced: Unsynced | None = None

    def __repr__(self) -> str:
        return f"Folder({str(self.path)!r})"

    @property
    def identity(self) -> str:
        """What it is known by in the user's cache."""
        return os.path.abspath(self.path)

    def at(self, name: str) -> Path:
        """The path of a file of the corpus. Raises DataError for a name that leads outside."""
        check_name(name)
        return self.path / name

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name. Raises StorageError when that can't be told."""
        try:
            return self.at(name).is_file()
        except OSError as e:
            raise storage_error(e, f"can't look for {self.at(name)}") from e

    def size(self, name: str) -> int:
        """Bytes of a file. Raises StorageError when it is missing."""
        try:
            return self.at(name).stat().st_size
        except OSError as e:
            raise storage_error(e, f"can't read {self.at(name)}") from e

    def check_size(self, name: str, expected_bytes: int) -> None:
        """Raise DataError for a file that has another size, StorageError for one that is missing."""
        if (size := self.size(name)) != expected_bytes:
            raise DataError(
                f"{self.at(name)}: {size} bytes, expected {expected_bytes}; it was cut or replaced, restore it"
            )

    def modified(self, name: str) -> int | str:
        """What changes when a file does: when that was, in nanoseconds. Raises StorageError when it is missing."""
        try:
            return self.at(name).stat().st_mtime_ns
        except OSError as e:
            raise storage_error(e, f"can't read {self.at(name)}") from e

    def states(self, names: Sequence[str]) -> list[int | str | None]:
        """What changes when files do, asked anew. Raises StorageError where one is missing."""
        return [self.modified(name) for name in names]

    def below(self, name: str) -> list[str]:
        """Names of all files in a folder of the corpus and below it, hidden ones too; none where it is missing."""
        walked = os.walk(self.at(name))
        return sorted((Path(root) / f).relative_to(self.path).as_posix() for root, _, files in walked for f in files)

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

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Bytes of those of the files that are there."""
        found = {}
        for name in names:
            with suppress(TokenyardError):
                found[name] = self.size(name)
        return found

    def read(self, name: str, max_bytes: int = -1) -> bytes:
        """All bytes of a file, or its first ``max_bytes``."""
        path = self.at(name)
        try:
            with open_regular(path) as f:
                return f.read(max_bytes)
        except OSError as e:
            raise storage_error(e, f"can't read {path}") from e

    def read_listed(self, file: FileInfo) -> bytes:
        """All bytes of a small file that a manifest names. Whoever reads it checks its checksum."""
        return self.read(file.name)

    def map(self, name: str, expected_bytes: int | None = None) -> NDArray[np.uint8]:
        """A file as a read-only uint8 array over a memory map.

        Raises DataError when its size is not ``expected_bytes``: a map of a file that was cut would kill the process.
        """
        path = self.at(name)
        try:
            return map_whole(path, expected_bytes)
        except OSError as e:
            raise storage_error(e, f"can't map {path}") from e

    def checksum(self, name: str, expected_bytes: int) -> str:
        """The checksum of a file. Raises DataError when its size is not ``expected_bytes``."""
        return checksum(self.map(name, expected_bytes))

    def raw(self, name: str, expected_bytes: int) -> RawFile:
        """A file to be read by ranges, in the folder's mode; nothing is opened yet."""
        return RawFile(self.at(name), expected_bytes, self.read_mode)

    def knowing(self, cells: Mapping[str, Cells | None]) -> Folder:
        """The folder, told the checksums of the cells of some files, by name; one of a local disk needs none."""
        del cells
        return self

    @contextmanager
    def publish(self, name: str) -> Iterator[PublishedFile]:
        """Write a file that appears under ``name`` whole, when the block ends, or not at all.

        The file object takes ``write`` calls in order; after the block its ``info`` holds size and checksum. Raises
        StorageError (disk full, no permission) with nothing left behind.
        """
        target = self._own_place(name)
        temp = self._own_place(f"{_TEMP}/{uuid.uuid4().hex}")
        try:
            try:
                temp.parent.mkdir(parents=True, exist_ok=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(temp, "xb") as raw:
                    file = PublishedFile(raw, name)
                    yield file
                    file.hand_over()
                    if self._unsynced is None:
                        os.fsync(raw.fileno())
                        os.replace(temp, target)
                        sync_folder(target.parent)
                    else:
                        os.replace(temp, target)
                        self._unsynced.add(raw.fileno(), target.parent)
            except OSError as e:
                if isinstance(e, StorageError):
                    raise
                raise storage_error(e, f"can't write {target}") from e
        finally:
            with suppress(OSError):
                temp.unlink(missing_ok=True)

    @contextmanager
    def synced_together(self) -> Iterator[None]:
        """What is published inside is on the disk when the block ends, not each file before the next one begins.

        Where the machine goes down before, a file may be there under its name, but cut: only for files that nothing
        refers to until the block has ended. Of blocks inside each other the outermost counts, so one thread alone may
        write into the folder. After an error inside, nothing is waited for. Raises StorageError.
        """
        if self._unsynced is not None:
            yield
            return
        self._unsynced = waiting = Unsynced()
        try:
            yield
            try:
                waiting.sync()
            except OSError as e:
                raise storage_error(e, f"can't write what was begun in {self.path}") from e
        finally:
            self._unsynced = None  # whatever closing does: files after it are synced
            waiting.close()

    def write(self, name: str, data: bytes) -> FileInfo:
        """Publish ``data`` as a file."""
        with self.publish(name) as file:
            file.write(data)
        return file.info

    def lines(self, name: str) -> Lines:
        """A new file of lines, which are there one by one as they are added. Raises StorageError."""
        path = self._own_place(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return LineFile(path)
        except OSError as e:
            raise storage_error(e, f"can't write to {path}") from e

    def clear_temporary(self) -> None:
        """Delete what interrupted writers left behind; only for the one job that owns the folder."""
        shutil.rmtree(self._own_place(_TEMP), ignore_errors=True)

    def remove(self, name: str) -> None:
        """Delete a file; fine when it is not there."""
        path = self._own_place(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as e:
            raise storage_error(e, f"can't remove {path}") from e

    def _own_place(self, name: str) -> Path:
        """The path of a file to be written or removed. Raises StorageError where a link leads elsewhere on the way."""
        path = self.at(name)
        for part in path.relative_to(self.path).parents:
            folder = self.path / part
            if part.parts and folder.is_symlink():
                raise StorageError(
                    f"{folder}: a link to {os.readlink(folder)}; a corpus is written inside its own folder alone, so "
                    "remove the link, or put a folder in its place"
                )
        return path


class PublishedFile:
    """A file being written: counts and checksums what passes.

    ``hurry``: the system is told to write to the disk what it has, for somebody will wait for that.
    """

    def __init__(self, raw: IO[bytes], name: str, *, hurry: bool = True) -> None:
        self._raw = raw
        self._name = name
        self._hurry = hurry
        self._hash = blake3.blake3()
        self._cells = CellHasher()
        self._bytes = 0
        #: How far the system was told to write to the disk.
        self._begun = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Append bytes, or anything with a buffer. Returns the number of bytes."""
        view = memoryview(data)
        if view.nbytes == 0:
            return 0
        view = view.cast("B")
        for start in range(0, len(view), _WRITE_BYTES):
            # Hashed while the processor's cache still holds what was written.
            part = view[start : start + _WRITE_BYTES]
            self._raw.write(part)
            self._hash.update(part)
            self._cells.update(part)
            self._bytes += len(part)
            if self._hurry and self._bytes - self._begun >= _WRITEBACK_BYTES:
                self._begin_writeback()
        return len(view)

    def hand_over(self) -> None:
        """Hand the rest to the system, which is told to write it to the disk."""
        if self._bytes > self._begun:
            self._begin_writeback()

    def _begin_writeback(self) -> None:
        self._raw.flush()
        begin_writeback(self._raw.fileno(), self._begun, self._bytes - self._begun)
        self._begun = self._bytes

    def tell(self) -> int:
        """Bytes written so far."""
        return self._bytes

    def flush(self) -> None:
        """Hand what is buffered to the system."""
        self._raw.flush()

    @property
    def info(self) -> FileInfo:
        """Name, size and checksums of what was written."""
        return FileInfo(
            name=self._name,
            bytes=self._bytes,
            checksum=f"blake3:{self._hash.hexdigest()}",
            cells=self._cells.so_far(),
        )


def natural_order(name: str) -> tuple[tuple[str | int, ...], str]:
    """The key that sorts names with numbers in them as a person would; ``a1`` and ``a01`` by their characters."""
    return tuple(int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(name))), name


def checksum(data: Any) -> str:
    """``blake3:<hex>`` of bytes, or of anything with a buffer."""
    return f"blake3:{blake3.blake3(data).hexdigest()}"


def remove_tree(path: Path) -> None:
    """Delete a folder and all in it. Raises StorageError."""
    try:
        shutil.rmtree(path)
    except OSError as e:
        raise storage_error(e, f"can't remove {path}") from e
