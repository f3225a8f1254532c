"""Where a job makes a corpus: claimed by a marker first, whole only when the manifest is there.

``--overwrite`` builds the new corpus beside the old one and takes its place when it is whole, so a failed job loses
nothing.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenyard.corpus.claim import (
    DONE_FOLDER,
    JOB_FOLDER,
    BusyError,
    Claim,
    claim,
    hand_on,
    is_bare,
    is_finished,
    is_held,
    is_whole,
    marker_of,
    part_lock,
    take_over,
)
from tokenyard.corpus.locating import is_remote
from tokenyard.corpus.paths import local_path
from tokenyard.corpus.places import (
    beside,
    check_length,
    files_of,
    goes_on,
    has_entries,
    is_free,
    is_made,
    is_of,
    state_of,
    what_lies_at,
)
from tokenyard.corpus.remote_destination import remote_destination
from tokenyard.corpus.removal import clear_failed, empty, remove_corpus
from tokenyard.errors import ConfigError, DestinationExistsError, StorageError
from tokenyard.formats.base import Format
from tokenyard.manifest import MANIFEST_NAME, MARKER_NAME, Manifest
from tokenyard.storage import Folder, TargetBucket, storage_error, swap, sync_folder

#: How long a part waits for another one that empties the folder for both.
_PATIENCE_SECONDS = 10.0


@contextmanager
def destination(
    path: str | os.PathLike[str],
    job: Mapping[str, Any],
    *,
    overwrite: bool = False,
    part: tuple[int, int] | None = None,
    finish: bool = False,
) -> Iterator[Folder]:
    """A folder, or a URL of an object store, in which to build a corpus; the block ends with ``publish_manifest``.

    ``job`` says for people what is made. With an ``id`` in it, a folder that a dead job of the same id has left is gone
    on with, even one that is whole already; and an error inside the block leaves what is in ``DONE_FOLDER``, if there
    is anything, and all else, for the next time. Otherwise an error removes what was built.

    ``part``: K of N, which is done by one process at a time, while other parts of the same id may work here too; the
    block ends without a manifest, and nothing is removed. ``finish``: parts have done all. To both, where parts of the
    same id with ``overwrite`` have made a corpus, which is whole by now, that is given, with its manifest.

    Raises DestinationExistsError when something lies at ``path``: without ``overwrite`` always, with it unless it is a
    corpus that tokenyard made, whole or half-made.
    """
    if is_remote(path):
        with remote_destination(TargetBucket(str(path)), job, overwrite=overwrite, part=part) as bucket:
            yield bucket
        return
    final = Path(os.path.abspath(local_path(path)))
    if final.is_symlink():  # the link stays, and leads to the new corpus
        final = Path(os.path.realpath(final))
    check_length(final)
    if (part or finish) and marker_of(final) is None and is_finished(final, job):
        yield Folder(final)
        return
    try:
        build, created, held = _begun(final, job, overwrite, part is not None)
    except OSError as e:
        if isinstance(e, StorageError):
            raise
        raise storage_error(e, f"can't create {final}") from e
    old, replaced = state_of(final), build == final and is_whole(build)
    try:
        for folder in created:
            _sync(folder.parent)
        with part_lock(build, *part, replaces=overwrite) if part else nullcontext():
            yield Folder(build)
        if not part:
            if not is_whole(build):
                raise StorageError(f"{build}: the job ended without a manifest")
            if build != final:
                _take_its_place(build, final, job, old)
            elif replaced and not is_free(left := beside(final)) and marker_of(left) is None:
                remove_corpus(left)  # the old corpus, whose removal was interrupted
            _leave_only_the_corpus(Folder(final))
    except BaseException as e:
        # Not a folder that another job has put here in the meantime.
        if not part and held.is_of(build):
            _clear_or_keep(build, final, job, created, e)
        raise
    finally:
        held.release()


def publish_manifest(folder: Folder, format: Format, manifest: Manifest) -> Manifest:
    """Make a corpus whole: what the native layout needs, then the manifest.

    Returns the manifest as published: it also names what the native layout keeps beside the shards. Raises ConfigError
    for a format that writes there what it doesn't name.
    """
    with folder.synced_together():
        manifest = replace(manifest, files=format.finish(folder, manifest))
    names = frozenset(format.native_names)
    if unnamed := [file.name for file in manifest.files if not is_made(file.name.split("/")[0], names)]:
        raise ConfigError(
            f"format {format.name!r} wrote {unnamed[0]} beside the shards, which its native_files doesn't name "
            f"({', '.join(names) or 'none'}); name it there, so that what a killed job leaves is known for its own"
        )
    folder.clear_temporary()
    folder.write(MANIFEST_NAME, manifest.to_json().encode())
    return manifest


def _leave_only_the_corpus(folder: Folder) -> None:
    """Remove what a job needed, its marker last: while that is there, the same job, run again, does the rest."""
    folder.clear_temporary()
    shutil.rmtree(folder.path / JOB_FOLDER, ignore_errors=True)
    folder.remove(MARKER_NAME)


def _clear_or_keep(build: Path, final: Path, job: Mapping[str, Any], created: list[Path], error: BaseException) -> None:
    """Remove what was built before an error, unless it is whole, or can be gone on with: then the error tells so."""
    if is_whole(build) and build != final:
        error.add_note(f"the new corpus is whole, and lies in {build}; what was at {final} is still there")
    elif "id" in job and has_entries(build / DONE_FOLDER):
        error.add_note(f"what is done so far is kept: the same job, run again, goes on with it; it lies in {build}")
    elif not is_whole(build):
        clear_failed(build, created, files_of(job))


def _place(final: Path, job: Mapping[str, Any], overwrite: bool) -> tuple[Path, bool]:
    """The folder to build in, where the corpus is to be or beside it, and whether what lies there is to be removed.

    Raises DestinationExistsError.
    """
    if not os.path.lexists(final):
        for old in final.parent.glob(f".{glob.escape(final.name)}.*.old"):  # killed between the two steps of a swap
            with suppress(OSError):
                os.rename(old, final)
    build = beside(final)
    if is_free(final):
        return (build if goes_on(build, job) else final), False
    if goes_on(final, job):
        return final, False
    what, is_ours = _looked_at(final, job)
    if not overwrite or not is_ours:
        way = "pass --overwrite (overwrite=True) to replace it, or choose" if is_ours else "choose"
        raise DestinationExistsError(f"{final}: {what} is there already; {way} another destination")
    if not is_whole(final):
        return final, True  # nobody could read it, so it need not stay until the new one is whole
    if not is_free(build) and not goes_on(build, job):
        what, is_ours = _looked_at(build, job)
        if not is_ours:
            raise DestinationExistsError(f"{build}: {what}, where the new corpus would be built; see to it first")
        if has_entries(build / DONE_FOLDER):
            raise DestinationExistsError(
                f"{build}: {what}, and what it has done is kept: run that job again, or remove the folder"
            )
    return build, True


def _looked_at(folder: Path, job: Mapping[str, Any]) -> tuple[str, bool]:
    """What lies there. Raises BusyError where a living job holds it."""
    if marker_of(folder) is not None and is_held(folder):
        raise BusyError(f"{folder}: a corpus that another job is making right now is there; choose another destination")
    return what_lies_at(folder, job)


def _begun(final: Path, job: Mapping[str, Any], overwrite: bool, part: bool) -> tuple[Path, list[Path], Claim]:
    """The folder to build in, those that were made for it, itself first, and the lock on its marker.

    Raises OSError, DestinationExistsError. A part waits a while where another one is emptying the folder for both.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            build, may_empty = _place(final, job, overwrite)
            created = [p for p in (build, *build.parents) if not p.exists()]
            return build, created, _hold(build, job, part=part, may_empty=may_empty)
        except BusyError:
            if not part or time.monotonic() > until:
                raise
            time.sleep(0.05)


def _hold(build: Path, job: Mapping[str, Any], *, part: bool, may_empty: bool) -> Claim:
    """Make a folder for one job, or for parts of one. Raises OSError, DestinationExistsError."""
    build.mkdir(parents=True, exist_ok=True)
    if not is_of(build, job):
        if not is_bare(build):
            return _emptied(build, job, part, may_empty)
        if (held := claim(build, job, shared=part)) is not None:
            return held
        if not is_of(build, job):
            raise BusyError(f"{build}: another job has just begun here; choose another destination")
    return take_over(build, shared=part)


def _emptied(build: Path, job: Mapping[str, Any], part: bool, may_empty: bool) -> Claim:
    """Take a folder with what a dead job has left, which nobody asks for any more, and empty it."""
    if not may_empty:
        raise BusyError(f"{build}: another job has just begun here; choose another destination")
    # With a marker of no job: a corpus that lies there would be taken for this job's.
    held = claim(build, {"job": "remove"}) if marker_of(build) is None else take_over(build)
    if held is None:
        raise BusyError(f"{build}: another job has just begun here; choose another destination")
    try:
        empty(build)
        return hand_on(build, job, held, shared=part)
    except BaseException:
        held.release()
        raise


def _take_its_place(build: Path, final: Path, job: Mapping[str, Any], old: tuple[int, ...] | None) -> None:
    """Put a new corpus where an old one is, and remove that. Raises DestinationExistsError, StorageError."""
    try:
        if is_free(final):
            os.rename(build, final)
            sync_folder(final.parent)
            return
        what, is_ours = what_lies_at(final, job)
        if not is_ours or state_of(final) != old:
            raise DestinationExistsError(f"{final}: {what} has been put there since this job began; see to it first")
        replaced = swap(build, final)
        sync_folder(final.parent)
    except OSError as e:
        if isinstance(e, StorageError):
            raise
        raise storage_error(e, f"can't put the new corpus at {final}") from e
    try:
        remove_corpus(replaced)
    except OSError as e:
        left = storage_error(e, f"can't remove {replaced}")
        warnings.warn(
            f"the new corpus is at {final}, but the one it replaced is left at {replaced}: {left}", stacklevel=4
        )


def _sync(folder: Path) -> None:
    try:
        sync_folder(folder)
    except OSError as e:
        raise storage_error(e, f"can't sync {folder}") from e
