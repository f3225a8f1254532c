"""Where a job makes a corpus: claimed by a marker first, whole only when the manifest is there.

``--overwrite`` builds the new corpus beside the old one and takes its place when it is whole, so a failed job loses
nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tokenyard.errors import DataError, DestinationExistsError, StorageError
from tokenyard.formats.base import Format
from tokenyard.manifest import HOME, MANIFEST_NAME, MARKER_NAME, Manifest
from tokenyard.storage import Folder, remove_tree, storage_error, sync_folder

#: In a manifest's provenance, the job of a corpus that others made and tokenyard only indexed.
INDEX_JOB = "index"
#: Names that jobs give to what they make.
_MADE = re.compile(rf"{re.escape(HOME)}|shard-\d+.*|index\.json")


@contextmanager
def destination(path: str | os.PathLike[str], job: Mapping[str, Any], *, overwrite: bool = False) -> Iterator[Folder]:
    """A folder in which to build a corpus; the block ends with ``publish_manifest``.

    An error inside the block removes what was built. Raises DestinationExistsError when something lies at ``path``:
    without ``overwrite`` always, with it unless it is a corpus that tokenyard made, whole or half-made.
    """
    final = Path(os.path.abspath(local_path(path)))
    if final.is_symlink():  # the link stays, and leads to the new corpus
        final = Path(os.path.realpath(final))
    try:
        replaces = _check_free(final, overwrite)
        build = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.new") if replaces else final
        created = _claim(build)
    except OSError as e:
        if isinstance(e, StorageError):
            raise
        raise storage_error(e, f"can't create {final}") from e
    folder = Folder(build)
    identity = _identity(build)
    try:
        with folder.synced_together():  # its name is what counts
            folder.write(MARKER_NAME, json.dumps(dict(job), sort_keys=True, indent=1).encode() + b"\n")
        with open(folder.at(MARKER_NAME), "rb") as marker:
            with suppress(OSError):  # a file system without locks: then a living job can't be told from a dead one
                fcntl.flock(marker, fcntl.LOCK_EX)
            yield folder
        if not folder.exists(MANIFEST_NAME):
            raise StorageError(f"{build}: the job ended without a manifest")
        if replaces:
            _swap(build, final)
    except BaseException:
        # Not a folder that another job has put here in the meantime.
        if _identity(build) == identity:
            _clear(build, created)
        raise


def publish_manifest(folder: Folder, format: Format, manifest: Manifest) -> Manifest:
    """Make a corpus whole: what the native layout needs, then the manifest, then the marker goes.

    Returns the manifest as published: it also names what the native layout keeps beside the shards.
    """
    with folder.synced_together():
        manifest = replace(manifest, files=format.finish(folder, manifest))
    folder.clear_temporary()
    folder.write(MANIFEST_NAME, manifest.to_json().encode())
    folder.remove(MARKER_NAME)
    folder.clear_temporary()
    return manifest


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path or a ``file://`` URL as a path. Raises StorageError for URLs of other kinds or of other hosts."""
    text = os.fspath(path)
    scheme, separator, rest = text.partition("://")
    if "\0" in text:
        raise StorageError(f"{text!r}: a path has no NUL in it")
    if not separator:
        try:
            return Path(text).expanduser()
        except RuntimeError as e:
            raise StorageError(f"{text}: {e}") from None
    if scheme != "file":
        raise StorageError(
            f"{text}: {scheme}:// is not supported, only local paths and file:// URLs are; copy the corpus to a disk"
        )
    host, slash, below = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise StorageError(f"{text}: a file:// URL of this machine has an absolute path, as in file:///data/corpus")
    return Path("/" + unquote(below))


def _check_free(final: Path, overwrite: bool) -> bool:
    """Whether a corpus must be replaced; False when the place is free. Raises DestinationExistsError."""
    if not os.path.lexists(final) or (final.is_dir() and not any(final.iterdir())):
        return False
    what, is_ours = _what_lies_at(final)
    if not overwrite or not is_ours:
        way = "pass --overwrite (overwrite=True) to replace it, or choose" if is_ours else "choose"
        raise DestinationExistsError(f"{final}: {what} is there already; {way} another destination")
    return True


def _what_lies_at(final: Path) -> tuple[str, bool]:
    """In words, and whether tokenyard made it, so that it may be replaced."""
    listed: set[str] = set()
    if (final / MANIFEST_NAME).is_file():
        try:
            manifest = Manifest.from_json((final / MANIFEST_NAME).read_bytes(), str(final / MANIFEST_NAME))
        except DataError:
            manifest = None  # the names of the files have to tell
        if manifest is not None:
            listed = {file.name.split("/")[0] for file in manifest.all_files}
        if manifest is not None and manifest.provenance.get("job") == INDEX_JOB:
            return "a corpus that others made and tokenyard only indexed", False
    elif (final / MARKER_NAME).is_file():
        if _is_held(final / MARKER_NAME):
            return "a corpus that another job is making right now", False
    else:
        return "something that is not a tokenyard corpus", False
    if strangers := sorted(p.name for p in final.iterdir() if not _MADE.fullmatch(p.name) and p.name not in listed):
        return f"a corpus, but also {strangers[0]!r}, which tokenyard did not make,", False
    return (
        "a corpus" if (final / MANIFEST_NAME).is_file() else "a corpus that an interrupted job left half-made"
    ), True


def _is_held(marker: Path) -> bool:
    """Whether the job that wrote the marker is alive: it holds a lock on it, which ends with it."""
    with open(marker, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False  # a file system without locks
    return False


def _claim(build: Path) -> list[Path]:
    """Make a folder for one job alone; returns the folders made for it, itself first. Raises OSError."""
    made = [p for p in (build, *build.parents) if not p.exists()]
    build.mkdir(parents=True, exist_ok=True)
    try:
        (build / HOME).mkdir()
    except FileExistsError:
        raise DestinationExistsError(f"{build}: another job has just begun here; choose another destination") from None
    return made


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _swap(build: Path, final: Path) -> None:
    old = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.old")
    try:
        os.replace(final, old)
        os.replace(build, final)
        sync_folder(final.parent)
    except BaseException as e:
        if os.path.lexists(old) and not os.path.lexists(final):
            os.replace(old, final)
        if isinstance(e, OSError):
            raise storage_error(e, f"can't put the new corpus at {final}") from e
        raise
    try:
        remove_tree(old)
    except StorageError as e:
        warnings.warn(f"the new corpus is at {final}, but the one it replaced is left at {old}: {e}", stacklevel=4)


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
