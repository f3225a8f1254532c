"""The marker of a job that makes a corpus: who may build in a folder, and what an interrupted job was about.

A job holds a lock on its marker as long as it lives, so a dead one can be told from a living one. On a file system
without locks every job is taken for dead.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tokenyard.errors import DestinationExistsError
from tokenyard.manifest import HOME, MANIFEST_NAME, MARKER_NAME
from tokenyard.storage import storage_error, sync_folder

#: What a job needs besides its marker; in it what it has done, and which parts of it are at work.
JOB_FOLDER = f"{HOME}/job"
DONE_FOLDER = f"{JOB_FOLDER}/done"
PARTS_FOLDER = f"{JOB_FOLDER}/parts"
#: There where a part may put what it makes in the place of a whole corpus.
REPLACING_NAME = f"{PARTS_FOLDER}/replacing"
#: In a corpus that such parts have made, the id of their job, and what its tasks counted: one that is run again
#: afterwards, and another ``--finish``, replace nothing.
FINISHED_NAME = f"{HOME}/finished.json"
#: Of file systems that have no locks.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class BusyError(DestinationExistsError):
    """A living job holds the place, for now."""


class Claim:
    """A lock on the marker of a folder, held until ``release``, or until the process ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def is_of(self, folder: Path) -> bool:
        """Whether the marker in a folder is the one held: not that of a folder that was put in its place."""
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(folder / MARKER_NAME))
        except OSError:
            return False

    def release(self) -> None:
        """Let another job have the folder."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1


def claim(folder: Path, job: Mapping[str, Any], *, shared: bool = False) -> Claim | None:
    """Take a folder that no job has; None when another one was quicker. Raises OSError.

    The marker appears under its name whole and locked, so there is no moment at which its job seems dead.
    """
    handle, temp = _new_marker(folder, job, shared)
    try:
        _give_name(temp, folder / MARKER_NAME)
        sync_folder(folder / HOME)
    except BaseException as e:
        os.close(handle)
        if isinstance(e, FileExistsError):
            return None
        raise
    finally:
        temp.unlink(missing_ok=True)
    return Claim(handle)


def hand_on(folder: Path, job: Mapping[str, Any], held: Claim, *, shared: bool = False) -> Claim:
    """Put another job's marker in the place of one that is held. Raises OSError."""
    handle, temp = _new_marker(folder, job, shared)
    try:
        os.replace(temp, folder / MARKER_NAME)
        sync_folder(folder / HOME)
    except BaseException:
        os.close(handle)
        temp.unlink(missing_ok=True)
        raise
    held.release()
    return Claim(handle)


def take_over(folder: Path, *, shared: bool = False) -> Claim:
    """Go on where a dead job, or with ``shared`` also a living part of the same one, has begun.

    Raises DestinationExistsError while another job lives, or when it has just ended.
    """
    marker = folder / MARKER_NAME
    try:
        handle = os.open(marker, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _just_ended(folder) from None
    if not lock(handle, shared=shared):
        os.close(handle)
        raise BusyError(f"{folder}: a job is at work on it right now; wait for its end")
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), os.stat(marker)):
            return Claim(handle)
    os.close(handle)
    raise _just_ended(folder)


@contextmanager
def part_lock(folder: Path, number: int, count: int, *, replaces: bool) -> Iterator[None]:
    """Let one process at a time do a part. Where the file system has no locks two may, and write the same bytes.

    ``replaces``: whether what it makes may take the place of a whole corpus.
    """
    path = folder / PARTS_FOLDER / f"{number}-of-{count}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if replaces:
            (folder / REPLACING_NAME).touch()
        file = open(path, "a")  # noqa: SIM115
    except OSError as e:
        raise storage_error(e, f"can't create {path}") from e
    with file:
        if not lock(file.fileno(), shared=False):
            raise busy_part(folder, number, count)
        yield


def busy_part(place: object, number: int, count: int) -> BusyError:
    """The error where a part is at work already."""
    return BusyError(f"{place}: another process does task {number}/{count} right now; wait for its end")


def marker_of(folder: Path) -> Mapping[str, Any] | None:
    """What the marker in a folder says: nothing where it was cut; None without one."""
    try:
        found = json.loads((folder / MARKER_NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def is_finished(folder: Path, job: Mapping[str, Any]) -> bool:
    """Whether a whole corpus lies there that parts of a job of the same id have made, which may replace one."""
    try:
        said = json.loads((folder / FINISHED_NAME).read_bytes())
    except (OSError, ValueError):
        return False
    return "id" in job and isinstance(said, dict) and said.get("id") == job["id"] and is_whole(folder)


def is_held(folder: Path) -> bool:
    """Whether a job that builds in a folder is alive. False to one who may not write there, and can't know."""
    try:
        with open(folder / MARKER_NAME, "r+b") as file:
            return not lock(file.fileno(), shared=False)
    except OSError:
        return False


def is_bare(folder: Path) -> bool:
    """Whether a folder is empty, or a job was killed in it before it had its marker."""
    if any(entry.name != HOME for entry in folder.iterdir()):
        return False
    home = folder / HOME
    return not home.exists() or (home.is_dir() and all(entry.name == "tmp" for entry in home.iterdir()))


def is_whole(folder: Path) -> bool:
    """Whether there is a manifest."""
    return (folder / MANIFEST_NAME).is_file()


def _new_marker(folder: Path, job: Mapping[str, Any], shared: bool) -> tuple[int, Path]:
    """A marker under a temporary name, locked."""
    temp = folder / f"{HOME}/tmp/{uuid.uuid4().hex}"
    temp.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.write(handle, json.dumps(dict(job), sort_keys=True, indent=1).encode() + b"\n")
        os.fsync(handle)
        lock(handle, shared=shared)
    except BaseException:
        os.close(handle)
        temp.unlink(missing_ok=True)
        raise
    return handle, temp


def _give_name(temp: Path, marker: Path) -> None:
    """Raise FileExistsError where the name is taken."""
    try:
        os.link(temp, marker)
    except FileExistsError:
        raise
    except OSError:  # a file system that gives no file two names
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        os.replace(temp, marker)


def lock(handle: int, *, shared: bool) -> bool:
    """Whether no living process holds the file; it is locked then, where the file system has locks. Raises OSError."""
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:
        if e.errno not in _NO_LOCKS:
            raise
    return True


def _just_ended(folder: Path) -> BusyError:
    return BusyError(f"{folder}: another job has just ended here; look at what it left, or run again")
