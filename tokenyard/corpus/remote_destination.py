"""Where a job makes a corpus in an object store: claimed by a marker first, whole only when the manifest is there.

The marker is one object, which only one job can make. The whole of a job has a lease on it. Parts of a job leave it
free, and have leases of their own; whoever has taken a lease looks for the other kind afterwards, so of a job and a
part that begin at once one at least finds the other.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tokenyard.corpus.claim import DONE_FOLDER, JOB_FOLDER, PARTS_FOLDER, BusyError, busy_part
from tokenyard.corpus.lease import Lease, Seen, TakenError, are_dead, look, takeable, write_free
from tokenyard.corpus.places import files_of, is_made, other_than
from tokenyard.errors import ConfigError, DestinationExistsError, StorageError
from tokenyard.manifest import MANIFEST_NAME, MARKER_NAME
from tokenyard.storage import TargetBucket
from tokenyard.storage.objects import Objects
from tokenyard.storage.objects.urls import split_url

_WRITABLE = ("s3", "gs", "az", "memory")
#: What empties a folder, by the scheme of its URL: a command, and its last argument.
_EMPTYING = {
    "s3": ("aws s3 rm --recursive", "s3://{below}/"),
    "gs": ("gcloud storage rm --recursive", "gs://{below}/"),
    "az": ("az storage blob delete-batch --source {at.root} --pattern", "{at.prefix}/*"),
}


@contextmanager
def remote_destination(
    folder: TargetBucket, job: Mapping[str, Any], *, overwrite: bool, part: tuple[int, int] | None
) -> Iterator[TargetBucket]:
    """As ``destination``, below a URL. Raises ConfigError for ``overwrite``, DestinationExistsError, StorageError."""
    if split_url(folder.url).scheme not in _WRITABLE:
        raise ConfigError(
            f"{folder.url}: such URLs are for reading; write to {', '.join(f'{s}://' for s in _WRITABLE)}, or to a "
            "folder"
        )
    if overwrite:
        raise ConfigError(
            f"{folder.url}: --overwrite (overwrite=True) is for folders. An object store can't put a new corpus in the "
            f"place of an old one in one step, so readers would find parts of both; choose another URL"
            f"{_or_empty(folder)}"
        )
    if part is not None:
        with _part(folder, job, part):
            yield folder
        return
    held = _whole(folder, job)
    folder.guard = partial(_check_kept, folder, held)
    try:
        yield folder
        if not folder.exists(MANIFEST_NAME):
            raise StorageError(f"{folder.url}: the job ended without a manifest")
        if not held.is_kept():
            raise _taken_for_dead(folder)
        _remove_all(folder.objects, (info.name for info in folder.objects.list(JOB_FOLDER)))
        held.end()
    except BaseException as e:
        _clear_or_keep(folder, job, held, e)
        raise
    finally:
        held.release()


def _whole(folder: TargetBucket, job: Mapping[str, Any]) -> Lease:
    """Take a place for the whole of a job. Raises DestinationExistsError, StorageError."""
    objects, seen = folder.objects, _look(folder)
    if seen is not None:
        seen = _own(folder, job, seen)
        _check_strangers(folder, files_of(job))
    try:
        held = Lease(objects, MARKER_NAME, job, over=seen.etag if seen else None)
    except TakenError:
        raise _begun(folder) from None
    if seen is None and folder.exists(MANIFEST_NAME):  # of a job that has begun and ended since nothing was there
        held.end()
        raise _begun(folder)
    try:
        if not are_dead(lambda: {info.name: info.etag or "" for info in objects.list(PARTS_FOLDER)}, folder.url):
            raise BusyError(f"{folder.url}: parts of this job are at work on it right now; wait for their end")
    except BaseException:
        held.release()
        raise
    return held


@contextmanager
def _part(folder: TargetBucket, job: Mapping[str, Any], part: tuple[int, int]) -> Iterator[None]:
    """Take a place for a part of a job. Raises DestinationExistsError, StorageError."""
    objects, (number, count) = folder.objects, part
    seen = _look(folder)
    if seen is None:
        write_free(objects, MARKER_NAME, job)  # or another part did
    elif (seen := _own(folder, job, seen)).owner is not None:
        write_free(objects, MARKER_NAME, job, over=seen.etag)
    name = f"{PARTS_FOLDER}/{number}-of-{count}.json"
    try:
        found = takeable(objects, name)
        held = Lease(objects, name, {}, over=found.etag if found else None)
    except TakenError:
        raise busy_part(folder.url, number, count) from None
    try:
        seen = look(objects, MARKER_NAME)
        if seen is None or not _is_of(job, seen) or seen.owner is not None:
            raise _begun(folder)
        folder.guard = partial(_check_kept, folder, held)
        yield
    finally:
        with suppress(StorageError):  # then it runs out by itself
            held.end()


def _look(folder: TargetBucket) -> Seen | None:
    """The marker there; None where nothing is. Raises DestinationExistsError where there is something else."""
    if (seen := look(folder.objects, MARKER_NAME)) is not None:
        return seen
    names = {info.name for info in folder.objects.list()}
    if MARKER_NAME in names:  # by a job that has begun since
        return look(folder.objects, MARKER_NAME)
    if names:
        what = "a corpus" if MANIFEST_NAME in names else f"something that is not a tokenyard corpus ({min(names)!r})"
        raise DestinationExistsError(
            f"{folder.url}: {what} is there already; choose another destination{_or_empty(folder)}"
        )
    return None


def _own(folder: TargetBucket, job: Mapping[str, Any], seen: Seen) -> Seen:
    """The marker of this very job, when no other process has it. Raises DestinationExistsError."""
    if not _is_of(job, seen):
        raise _of_another(folder, job, seen)
    try:
        found = takeable(folder.objects, MARKER_NAME)
    except TakenError:
        raise BusyError(f"{folder.url}: a job is at work on it right now; wait for its end") from None
    if found is None or not _is_of(job, found):
        raise _begun(folder)
    return found


def _is_of(job: Mapping[str, Any], seen: Seen) -> bool:
    return "id" in job and seen.said.get("id") == job["id"]


def _check_strangers(folder: TargetBucket, files: Set[str]) -> None:
    """Raise DestinationExistsError where somebody has put something beside what a job has made so far."""
    names = {info.name for info in folder.objects.list()}
    strangers = sorted({name for name in names if not is_made(name.split("/")[0], files)})
    if strangers and MANIFEST_NAME not in names:
        raise DestinationExistsError(
            f"{folder.url}: this job began here, but {strangers[0]!r} has been put there since, which it did not make; "
            "move it away"
        )


def _of_another(folder: TargetBucket, job: Mapping[str, Any], seen: Seen) -> DestinationExistsError:
    differing = other_than(job, seen.said)
    if seen.owner is not None:
        return BusyError(
            f"{folder.url}: another job makes a corpus there, or was killed while it did{differing}; choose another "
            f"destination, or when it is dead run that job again{_or_empty(folder)}"
        )
    return DestinationExistsError(
        f"{folder.url}: a corpus that an interrupted job left half-made{differing} is there already; run that job "
        f"again, choose another destination{_or_empty(folder)}"
    )


def _check_kept(folder: TargetBucket, held: Lease, asks: bool) -> None:
    if held.is_lost or (asks and not held.is_kept()):
        raise _taken_for_dead(folder)


def _taken_for_dead(folder: TargetBucket) -> BusyError:
    return BusyError(f"{folder.url}: this job was taken for dead, and another process goes on with it; wait for that")


def _begun(folder: TargetBucket) -> BusyError:
    return BusyError(f"{folder.url}: another job has just begun or ended here; look at what is there, or run again")


def _or_empty(folder: TargetBucket) -> str:
    at = split_url(folder.url)
    if at.scheme not in _EMPTYING:
        return ""
    command, what = (text.format(at=at, below=f"{at.root}/{at.prefix}".rstrip("/")) for text in _EMPTYING[at.scheme])
    return f", or empty this one: {command} {shlex.quote(what)}"


def _clear_or_keep(folder: TargetBucket, job: Mapping[str, Any], held: Lease, error: BaseException) -> None:
    """Remove what was made before an error, unless it is whole, or can be gone on with: then the error tells so."""
    objects = folder.objects
    with suppress(StorageError):  # the error is what counts, and a job run again finds what is left
        if not held.is_kept() or folder.exists(MANIFEST_NAME):
            return
        if "id" in job and objects.list(DONE_FOLDER):
            error.add_note(
                f"what is done so far is kept: the same job, run again, goes on with it; it lies in {folder.url}"
            )
            return
        made = (info.name for info in objects.list() if is_made(info.name.split("/")[0], files_of(job)))
        _remove_all(objects, (name for name in made if name != MARKER_NAME))
        held.end()


def _remove_all(objects: Objects, names: Iterable[str]) -> None:
    for name in names:
        objects.remove(name)
