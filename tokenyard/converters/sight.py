"""Files that every machine must see that runs tasks of a job: of what it reads, and where it writes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tokenyard.corpus import Corpus
from tokenyard.errors import StorageError, TokenyardError
from tokenyard.manifest import HOME
from tokenyard.storage import Folder


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A file, and how to tell how large it is: in bytes, the same on every machine. Picklable."""

    name: str
    size: Callable[[], int]

    def check(self, expected: int, here: str) -> None:
        """Raise StorageError where this machine, named ``here``, doesn't see the file with so many bytes."""
        try:
            found = f"found {self.size()} bytes"
        except (OSError, TokenyardError) as e:
            found = str(e)
        if found != f"found {expected} bytes":
            raise StorageError(
                f"{here} doesn't see {self.name} as the machine does that began the job ({found}, expected {expected} "
                "bytes): what a job reads, and where it writes, must lie on storage that all nodes have at one path"
            )


def local_sight(path: str) -> Sight:
    """Of a local file."""
    return Sight(name=os.path.abspath(path), size=partial(os.path.getsize, os.path.abspath(path)))


def corpus_sights(source: Corpus) -> list[Sight]:
    """Of the first file of a corpus."""
    names = [file.name for shard in source.manifest.shards[:1] for file in shard.files[:1]]
    return [_in_folder(source.folder, name) for name in names]


@contextmanager
def destination_sight(folder: Folder) -> Iterator[Sight]:
    """Of a file that is nowhere else: it is made here, and removed at the end."""
    name = f"{HOME}/tmp/{uuid.uuid4().hex}"
    folder.write(name, b"seen by all nodes\n")
    try:
        yield _in_folder(folder, name)
    finally:
        folder.remove(name)


def _in_folder(folder: Folder, name: str) -> Sight:
    return Sight(name=str(folder.at(name)), size=partial(folder.size, name))
