"""What a remote folder reads through: the cache's view of one corpus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blake3

from tokenyard.errors import DataError
from tokenyard.manifest import FileInfo
from tokenyard.storage.cache.cached_file import RANGE_BYTES, CachedFile, ReadRange
from tokenyard.storage.cache.disk import DiskCache
from tokenyard.storage.cache.names import Piece, file_key
from tokenyard.storage.cells import Cells


class FolderCache:
    """The files of one corpus in a cache. Picklable.

    Args:
        disk: the cache.
        identity: of the corpus's content: another content is another identity.
    """

    range_bytes = RANGE_BYTES

    def __init__(self, disk: DiskCache, identity: str) -> None:
        self.disk = disk
        self.identity = identity

    def key(self, name: str, num_bytes: int) -> str:
        """What the cache knows a file by."""
        return file_key(self.identity, name, num_bytes)

    def file(self, name: str, where: Any, num_bytes: int, read_range: ReadRange, cells: Cells | None) -> CachedFile:
        """A file that is read by ranges. ``where``: what messages call it."""
        return CachedFile(self.disk, self.key(name, num_bytes), where, num_bytes, read_range, cells)

    def whole(self, file: FileInfo, where: Any, read: Callable[[], Any]) -> bytes:
        """A small file, fetched once a node and kept; by its checksum, if it has one, each time it is read.

        Raises DataError for a file that has another size or checksum twice. ``read`` reads it from where it lies.
        """
        piece = Piece(self.key(file.name, file.bytes), 0, file.bytes, kept=True)
        if not file.bytes:
            return b""
        for _ in range(2):
            if (found := self.disk.read(piece.file, 0, file.bytes)) is not None:
                if _is_right(found, file):
                    self.disk.counters.add(hits=1)
                    return found.tobytes()
                self.disk.drop(piece)
            fetched = self.disk.fill(piece, lambda: self._fetched(file, where, read))
            if fetched is not None:
                return bytes(fetched)
        return bytes(self._fetched(file, where, read))

    def _fetched(self, file: FileInfo, where: Any, read: Callable[[], Any]) -> Any:
        """The bytes of a file; what is wrong is fetched once more."""
        data = self._read(read)
        if not _is_right(data, file):
            self.disk.counters.add(refetched=1)
            data = self._read(read)
        if not _is_right(data, file):
            raise DataError(
                f"{where}: {memoryview(data).nbytes} bytes, expected {file.bytes} with the checksum {file.checksum}; "
                "fetched twice, it is not the file that the manifest names: restore it"
            )
        return data

    def _read(self, read: Callable[[], Any]) -> Any:
        data = read()
        self.disk.counters.add(bytes_fetched=memoryview(data).nbytes, requests=1)
        return data


def _is_right(data: Any, file: FileInfo) -> bool:
    if memoryview(data).nbytes != file.bytes:
        return False
    return file.checksum is None or f"blake3:{blake3.blake3(data).hexdigest()}" == file.checksum
