"""Writing into an object store: each object appears whole, by one upload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tokenyard.errors import StorageError
from tokenyard.storage.errors import storage_error
from tokenyard.storage.folder import PublishedFile
from tokenyard.storage.objects import Objects
from tokenyard.storage.temporary import temporary_file, temporary_folder

#: Lines that share an object. Adding one uploads those before it once more, reading asks for each object.
_LINES = 64


@contextmanager
def upload(objects: Objects, name: str) -> Iterator[PublishedFile]:
    """Write a temporary local file, uploaded as ``name`` when the block ends without an error. Raises StorageError."""
    try:
        with temporary_file() as raw:
            file = PublishedFile(raw, name, hurry=False)
            yield file
            file.flush()
            objects.put(name, raw)
    except OSError as e:
        if isinstance(e, StorageError):
            raise
        what = f"can't write a file of {temporary_folder()} (TMPDIR), from where it is uploaded as"
        raise storage_error(e, f"{what} {objects.url}/{name}") from e


class LineObjects:
    """Lines in objects ``<stem>-0.jsonl``, ``<stem>-1.jsonl`` ..., each uploaded anew until it is full.

    ``guard``: called before each upload; may raise.
    """

    def __init__(self, objects: Objects, stem: str, guard: Callable[[], None] = lambda: None) -> None:
        self._objects = objects
        self._stem = stem
        self._guard = guard
        self._number = 0
        self._lines: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Upload a line. Raises StorageError."""
        self._guard()
        self._lines.append(line)
        self._objects.put(f"{self._stem}-{self._number}.jsonl", b"".join(self._lines))
        if len(self._lines) == _LINES:
            self._number, self._lines = self._number + 1, []

    def close(self) -> None:
        """Nothing to let go of."""
