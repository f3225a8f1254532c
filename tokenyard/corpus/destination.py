"""Where a job makes a corpus: claimed by a marker first, whole only when the manifest is there.

``--overwrite`` builds the new corpus beside the old one and takes its place when it is whole, so a failed job loses
nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenyard.corpus.claim import Claim, claim, hand_on, is_bare, is_held, is_whole, marker_of, take_over
from tokenyard.corpus.paths import local_path
from tokenyard.errors import DataError, DestinationExistsError, StorageError
from tokenyard.formats.base import Format
from tokenyard.manifest import HOME, MANIFEST_NAME, MARKER_NAME, Manifest
from tokenyard.storage import Folder, storage_error, swap, sync_folder

#: In a manifest's provenance, the job of a corpus that others made and tokenyard only indexed.
INDEX_JOB = "index"
#: What a job needs besides its marker, and in it what it has done.
JOB_FOLDER = f"{HOME}/job"
DONE_FOLDER = f"{JOB_FOLDER}/done"
#: How long a part waits for another one that empties the folder for both.
_PATIENCE_SECONDS = 30.0
#: Names that jobs give to what they make.
_MADE = re.compile(rf"{re.escape(HOME)}|shard-\d+.*|index\.json")


@contextmanager
def destination(
    path: str | os.PathLike[str], job: Mapping[str, Any], *, overwrite: bool = False, part: bool = False
) -> Iterator[Folder]:
    """A folder in which to build a corpus; the block ends with ``publish_manifest``.

    ``job`` says for people what is made. With an ``id`` in it, a folder that a dead job of the same id has left is gone
    on with, even one that is whole already; and an error inside the block leaves what is in ``DONE_FOLDER``, if there
    is anything, and all else, for the next time. Otherwise an error removes what was built.

    ``part``: others of the same id may work here at the same time; the block ends without a manifest, and nothing is
    removed.

    Raises DestinationExistsError when something lies at ``path``: without ``overwrite`` always, with it unless it is a
    corpus that tokenyard made, whole or half-made.
    """
    final = Path(os.path.abspath(local_path(path)))
    if final.is_symlink():  # the link stays, and leads to the new corpus
        final = Path(os.path.realpath(final))
    try:
        build = _place(final, job, overwrite)
        created = [p for p in (build, *build.parents) if not p.exists()]
        held = _hold(build, job, part=part, may_empty=build != final)
    except OSError as e:
        if isinstance(e, StorageError):
            raise
        raise storage_error(e, f"can't create {final}") from e
    identity, replaced = _identity(build), build == final and is_whole(build)
    try:
        for folder in created:
            _sync(folder.parent)
        yield Folder(build)
        if not part:
            if not is_whole(build):
                raise StorageError(f"{build}: the job ended without a manifest")
            if build != final:
                _take_its_place(build, final)
            elif replaced and not _is_free(beside := _beside(final)) and marker_of(beside) is None:
                _remove_corpus(beside)  # the old corpus, whose removal was interrupted
            _leave_only_the_corpus(Folder(final))
    except BaseException as e:
        # Not a folder that another job has put here in the meantime.
        if not part and _identity(build) == identity:
            _clear_or_keep(build, final, job, created, e)
        raise
    finally:
        held.release()


def publish_manifest(folder: Folder, format: Format, manifest: Manifest) -> Manifest:
    """Make a corpus whole: what the native layout needs, then the manifest.

    Returns the manifest as published: it also names what the native layout keeps beside the shards.
    """
    with folder.synced_together():
        manifest = replace(manifest, files=format.finish(folder, manifest))
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
    elif "id" in job and _has_entries(build / DONE_FOLDER):
        error.add_note(f"what is done so far is kept: the same job, run again, goes on with it; it lies in {build}")
    elif not is_whole(build):
        _clear(build, created)


def _place(final: Path, job: Mapping[str, Any], overwrite: bool) -> Path:
    """The folder to build in: where the corpus is to be, or beside it. Raises DestinationExistsError."""
    if not os.path.lexists(final):
        for old in final.parent.glob(f".{final.name}.*.old"):  # a job was killed between the two steps of a swap
            with suppress(OSError):
                os.rename(old, final)
    if _is_free(final) or _goes_on(final, job):
        return final
    what, is_ours = _what_lies_at(final, job)
    if not overwrite or not is_ours:
        way = "pass --overwrite (overwrite=True) to replace it, or choose" if is_ours else "choose"
        raise DestinationExistsError(f"{final}: {what} is there already; {way} another destination")
    build = _beside(final)
    if not _is_free(build) and not _goes_on(build, job):
        what, is_ours = _what_lies_at(build, job)
        if not is_ours:
            raise DestinationExistsError(f"{build}: {what}, where the new corpus would be built; see to it first")
        if _has_entries(build / DONE_FOLDER):
            raise DestinationExistsError(
                f"{build}: {what}, and what it has done is kept: run that job again, or remove the folder"
            )
    return build


def _beside(final: Path) -> Path:
    """Where a new corpus is built that replaces one."""
    return final.with_name(f".{final.name}.new")


def _is_free(path: Path) -> bool:
    return not os.path.lexists(path) or (path.is_dir() and is_bare(path))


def _goes_on(folder: Path, job: Mapping[str, Any]) -> bool:
    """Whether what a job of the same id began there can be gone on with. Raises DestinationExistsError."""
    if not _is_of(folder, job):
        return False
    if not is_whole(folder) and (strangers := _strangers(folder)):
        raise DestinationExistsError(
            f"{folder}: this job began here, but {strangers[0]!r} has been put there since, which it did not make; "
            "move it away"
        )
    return True


def _is_of(folder: Path, job: Mapping[str, Any]) -> bool:
    """Whether a job of the same id has begun there, dead or alive."""
    marker = marker_of(folder)
    return marker is not None and "id" in job and marker.get("id") == job["id"]


def _hold(build: Path, job: Mapping[str, Any], *, part: bool, may_empty: bool) -> Claim:
    """Make a folder for one job, or for parts of one. Raises OSError, DestinationExistsError."""
    build.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + _PATIENCE_SECONDS
    while not _is_of(build, job):
        try:
            if not is_bare(build):
                return _emptied(build, job, part, may_empty)
            if (held := claim(build, job, shared=part)) is not None:
                return held
        except DestinationExistsError:
            # Another part of this job may be emptying it for both.
            if not part or not may_empty or time.monotonic() > until:
                raise
            time.sleep(0.05)
    return take_over(build, shared=part)


def _emptied(build: Path, job: Mapping[str, Any], part: bool, may_empty: bool) -> Claim:
    """Take a folder with what a dead job has left, which nobody asks for any more, and empty it."""
    if not may_empty:
        raise DestinationExistsError(f"{build}: another job has just begun here; choose another destination")
    # With a marker of no job: a corpus that lies there would be taken for this job's.
    held = claim(build, {"job": "remove"}) if marker_of(build) is None else take_over(build)
    if held is None:
        raise DestinationExistsError(f"{build}: another job has just begun here; choose another destination")
    try:
        for entry in [build / MANIFEST_NAME, *build.iterdir(), *(build / HOME).iterdir()]:
            if entry not in (build / HOME, build / MARKER_NAME):
                _remove(entry)
        return hand_on(build, job, held, shared=part)
    except BaseException:
        held.release()
        raise


def _what_lies_at(final: Path, job: Mapping[str, Any]) -> tuple[str, bool]:
    """In words, and whether tokenyard made it, so that it may be replaced."""
    listed: set[str] = set()
    marker = marker_of(final)
    if is_whole(final):
        try:
            manifest = Manifest.from_json((final / MANIFEST_NAME).read_bytes(), str(final / MANIFEST_NAME))
        except DataError:
            manifest = None  # the names of the files have to tell
        if manifest is not None:
            listed = {file.name.split("/")[0] for file in manifest.all_files}
        if manifest is not None and manifest.provenance.get("job") == INDEX_JOB:
            return "a corpus that others made and tokenyard only indexed", False
    elif marker is not None:
        if is_held(final):
            return "a corpus that another job is making right now", False
    else:
        return "something that is not a tokenyard corpus", False
    if strangers := _strangers(final, listed):
        return f"a corpus, but also {strangers[0]!r}, which tokenyard did not make,", False
    if is_whole(final):
        return "a corpus", True
    return f"a corpus that an interrupted job left half-made{_other_than(job, marker or {})}", True


def _strangers(folder: Path, listed: Set[str] = frozenset()) -> list[str]:
    """Names that no job of ours has given."""
    return sorted(p.name for p in folder.iterdir() if not _MADE.fullmatch(p.name) and p.name not in listed)


def _other_than(job: Mapping[str, Any], marker: Mapping[str, Any]) -> str:
    """Why a job can't go on with what another one began, where both could have."""
    if "id" not in job or "id" not in marker:
        return ""
    keys = (*sorted({*job, *marker} - {"id"}),)
    differing = [
        f"{k}: {marker.get(k)!r:.80} there, {job.get(k)!r:.80} now" for k in keys if marker.get(k) != job.get(k)
    ]
    return f" (another job than this one, which could go on: {'; '.join(differing) or 'its inputs have changed'})"


def _has_entries(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _take_its_place(build: Path, final: Path) -> None:
    """Put a new corpus where an old one is, and remove that."""
    try:
        old = swap(build, final)
        sync_folder(final.parent)
    except OSError as e:
        raise storage_error(e, f"can't put the new corpus at {final}") from e
    try:
        _remove_corpus(old)
    except OSError as e:
        error = storage_error(e, f"can't remove {old}")
        warnings.warn(f"the new corpus is at {final}, but the one it replaced is left at {old}: {error}", stacklevel=4)


def _remove_corpus(folder: Path) -> None:
    """Delete a corpus, its manifest last: what is left when this is interrupted can still be told to be one."""
    for entry in [*folder.iterdir(), *(folder / HOME).iterdir()]:
        if entry not in (folder / HOME, folder / MANIFEST_NAME):
            _remove(entry)
    _remove(folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    try:
        sync_folder(folder)
    except OSError as e:
        raise storage_error(e, f"can't sync {folder}") from e


def _clear(build: Path, created: list[Path]) -> None:
    """Remove a failed build: the folders that the job made, or all that lies in the one it was given (it was empty)."""
    with suppress(OSError):
        if not created:
            # The marker goes last, so that an interrupted clean-up still looks half-made.
            entries = sorted(build.iterdir(), key=lambda p: p.name == HOME)
            for entry in entries:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            return
        shutil.rmtree(build)
        for parent in created[1:]:
            parent.rmdir()
