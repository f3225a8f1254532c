"""What lies at a place where a corpus is to be made, and whose it is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from tokenyard.corpus.claim import is_bare, is_held, is_whole, marker_of
from tokenyard.errors import DataError, DestinationExistsError, StorageError
from tokenyard.formats.base import Format
from tokenyard.manifest import HOME, MANIFEST_NAME, Manifest

#: In a manifest's provenance, the job of a corpus that others made and tokenyard only indexed.
INDEX_JOB = "index"
#: File systems take 255, and ``storage.swap`` puts 18 around a name.
_MAX_NAME_BYTES = 237
#: In a marker, the names that its format gives to what it writes beside shards.
_FILES = "files"
#: Names that jobs give to what they make.
_MADE = re.compile(rf"{re.escape(HOME)}|shard-\d{{5,}}(-\d{{5,}})?(\..*)?|index\.json")


def beside(final: Path) -> Path:
    """Where a new corpus is built that replaces one."""
    return final.with_name(f".{final.name}.new")


def check_length(final: Path) -> None:
    """Raise StorageError for a name so long that there is none beside it, which replacing a corpus needs."""
    length = len(os.fsencode(final.name))
    if length > _MAX_NAME_BYTES:
        raise StorageError(
            f"{final}: its name is {length} bytes long, and the name of a corpus may have {_MAX_NAME_BYTES}, since "
            "longer ones are made of it while it is replaced; choose a shorter name"
        )


def with_files(job: Mapping[str, Any], format: Format) -> dict[str, Any]:
    """What a job's marker says, with the names that its format gives to what it writes beside shards."""
    names = [name for name in format.native_names if not is_made(name)]
    return {**job, _FILES: names} if names else dict(job)


def is_free(path: Path) -> bool:
    """Whether nothing lies there that counts."""
    return not os.path.lexists(path) or (path.is_dir() and is_bare(path))


def goes_on(folder: Path, job: Mapping[str, Any]) -> bool:
    """Whether what a job of the same id began there can be gone on with. Raises DestinationExistsError."""
    if not is_of(folder, job):
        return False
    if not is_whole(folder) and (strangers := strangers_in(folder, files_of(job))):
        raise DestinationExistsError(
            f"{folder}: this job began here, but {strangers[0]!r} has been put there since, which it did not make; "
            "move it away"
        )
    return True


def is_of(folder: Path, job: Mapping[str, Any]) -> bool:
    """Whether a job of the same id has begun there, dead or alive."""
    marker = marker_of(folder)
    return marker is not None and "id" in job and marker.get("id") == job["id"]


def what_lies_at(final: Path, job: Mapping[str, Any]) -> tuple[str, bool]:
    """In words, and whether tokenyard made it, so that it may be replaced."""
    marker = marker_of(final)
    listed = files_of(marker or {})
    if marker is not None and is_held(final):
        return "a corpus that another job is making right now", False
    if is_whole(final):
        try:
            manifest = Manifest.from_json((final / MANIFEST_NAME).read_bytes(), str(final / MANIFEST_NAME))
        except DataError:
            manifest = None  # the names of the files have to tell
        if manifest is not None:
            listed |= {file.name.split("/")[0] for file in manifest.all_files}
        if manifest is not None and manifest.provenance.get("job") == INDEX_JOB:
            return "a corpus that others made and tokenyard only indexed", False
    elif marker is None:
        return "something that is not a tokenyard corpus", False
    if strangers := strangers_in(final, listed):
        return f"a corpus, but also {strangers[0]!r}, which tokenyard did not make,", False
    if is_whole(final):
        return "a corpus", True
    return f"a corpus that an interrupted job left half-made{other_than(job, marker or {})}", True


def strangers_in(folder: Path, listed: Set[str] = frozenset()) -> list[str]:
    """Names that no job of ours has given."""
    return sorted(p.name for p in folder.iterdir() if not is_made(p.name, listed))


def is_made(name: str, files: Set[str] = frozenset()) -> bool:
    """Whether jobs give such names to what they make; ``files``: those of one job's format."""
    return name in files or _MADE.fullmatch(name) is not None


def files_of(job: Mapping[str, Any]) -> frozenset[str]:
    """The names that a job's format gives to what it writes beside shards, as its marker says."""
    names = job.get(_FILES)
    return frozenset(str(name) for name in names) if isinstance(names, list) else frozenset()


def other_than(job: Mapping[str, Any], marker: Mapping[str, Any]) -> str:
    """Why a job can't go on with what another one began, where both could have."""
    if "id" not in job or "id" not in marker:
        return ""
    keys = (*sorted({*job, *marker} - {"id"}),)
    differing = [
        f"{k}: {marker.get(k)!r:.80} there, {job.get(k)!r:.80} now" for k in keys if marker.get(k) != job.get(k)
    ]
    return f" (another job than this one, which could go on: {'; '.join(differing) or 'its inputs have changed'})"


def has_entries(folder: Path) -> bool:
    """Whether it is a folder, and not empty."""
    return folder.is_dir() and any(folder.iterdir())


def state_of(folder: Path) -> tuple[int, ...] | None:
    """What tells a corpus from one that was put in its place: of its manifest, since numbers of folders come again."""
    try:
        found = (folder / MANIFEST_NAME).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
