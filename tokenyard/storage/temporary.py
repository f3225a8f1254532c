"""Files and folders that are gone when they are not needed any more, in the system's temporary folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tokenyard.errors import StorageError
from tokenyard.storage.errors import storage_error

_VARIABLE = "TMPDIR"


def temporary_folder() -> str:
    """The system's temporary folder. Raises StorageError where there is none.

    One that ``TMPDIR`` names has to be there: Python would take ``/tmp`` in its place, maybe on too small a disk.
    """
    named = os.environ.get(_VARIABLE)
    if named and not os.path.isdir(named):
        raise StorageError(
            f"{named}: no such folder, though {_VARIABLE} names it for temporary files; make it, or unset it"
        )
    try:
        return named or tempfile.gettempdir()
    except OSError as e:
        raise StorageError(f"no folder takes temporary files ({e.strerror}); name one in {_VARIABLE}") from e


@contextmanager
def temporary_file() -> Iterator[IO[bytes]]:
    """A file without a name, open for writing and reading. Raises StorageError where it can't be made."""
    folder = temporary_folder()
    try:
        file = tempfile.TemporaryFile(prefix="tokenyard-", dir=folder)  # noqa: SIM115
    except OSError as e:
        raise storage_error(e, f"can't make a temporary file in {folder} ({_VARIABLE} names another folder)") from e
    with file:
        yield file
