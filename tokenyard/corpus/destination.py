"""Where a job makes a corpus: claimed by a marker first, whole only when the manifest is there.

``--overwrite`` builds the new corpus beside the old one and takes its place when it is whole, so a failed job loses
nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tokenyard.errors import DestinationExistsError, StorageError
from tokenyard.formats.base import Format
from tokenyard.manifest import HOME, MANIFEST_NAME, MARKER_NAME, Manifest
from tokenyard.storage import Folder, remove_tree, storage_error, sync_folder


@contextmanager
def destination(path: str | os.PathLike[str], job: Mapping[str, Any], *, overwrite: bool = False) -> Iterator[Folder]:
    """A folder in which to build a corpus; the block ends with ``publish_manifest``.

    An error inside the block removes what was built. Raises DestinationExistsError when something lies at ``path``:
    without ``overwrite`` always, with it unless it is a corpus of ours, whole or half-made.
    """
    final = local_path(path)
    replaces = _check_free(final, overwrite)
    build = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.new") if replaces else final
    created = not build.exists()
    folder = Folder(build)
    try:
        try:
            build.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise storage_error(e, f"can't create {build}") from e
        folder.write(MARKER_NAME, json.dumps(dict(job), sort_keys=True, indent=1).encode() + b"\n")
        yield folder
        if not folder.exists(MANIFEST_NAME):
            raise StorageError(f"{build}: the job ended without a manifest")
        if replaces:
            _swap(build, final)
    except BaseException:
        _clear(build, created)
        raise


def publish_manifest(folder: Folder, format: Format, manifest: Manifest) -> None:
    """Make a corpus whole: what the native layout needs, then the manifest, then the marker goes."""
    format.finish(folder, manifest)
    folder.clear_temporary()
    folder.write(MANIFEST_NAME, manifest.to_json().encode())
    folder.remove(MARKER_NAME)
    folder.clear_temporary()


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path or a ``file://`` URL as a path. Raises StorageError for URLs of other kinds."""
    text = os.fspath(path)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    elif "://" in text:
        scheme = text.split("://")[0]
        raise StorageError(
            f"{text}: {scheme}:// is not supported, only local paths and file:// URLs are; copy the corpus to a disk"
        )
    return Path(text).expanduser()


def _check_free(final: Path, overwrite: bool) -> bool:
    """Whether a corpus must be replaced; False when the place is free. Raises DestinationExistsError."""
    if not final.exists() and not final.is_symlink():
        return False
    if final.is_dir() and not any(final.iterdir()):
        return False
    whole, begun = (final / MANIFEST_NAME).is_file(), (final / MARKER_NAME).is_file()
    what = (
        "a corpus"
        if whole
        else "a corpus that an interrupted job left half-made"
        if begun
        else "something that is not a tokenyard corpus"
    )
    if not overwrite or not (whole or begun):
        way = "pass --overwrite (overwrite=True) to replace it, or choose" if whole or begun else "choose"
        raise DestinationExistsError(f"{final}: {what} is there already; {way} another destination")
    return True


def _swap(build: Path, final: Path) -> None:
    old = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.old")
    try:
        os.replace(final, old)
        os.replace(build, final)
        sync_folder(final.parent)
    except OSError as e:
        if old.exists() and not final.exists():
            os.replace(old, final)
        raise storage_error(e, f"can't put the new corpus at {final}") from e
    remove_tree(old)


def _clear(build: Path, created: bool) -> None:
    """Remove a failed build: the whole folder if the job made it, else all that lies in it (it was empty)."""
    with suppress(OSError):
        if created:
            shutil.rmtree(build)
            return
        # The marker goes last, so that an interrupted clean-up still looks half-made.
        entries = sorted(build.iterdir(), key=lambda p: p.name == HOME)
        for entry in entries:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
