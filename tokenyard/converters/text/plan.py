"""The plan: which splits there are, in the order of their documents.

It depends on the inputs and the options alone, never on the number of workers.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tokenyard.converters.text.compression import detect_compression, file_head
from tokenyard.converters.text.inputs import InputPath, expand_inputs
from tokenyard.converters.text.options import Kind, TextOptions
from tokenyard.converters.text.sources import KIND_SUFFIXES, SOURCES, named_kind
from tokenyard.converters.text.split import SourceFile, Split
from tokenyard.errors import ConfigError, StorageError
from tokenyard.storage import is_url

#: Objects that are looked at at the same time.
_AT_ONCE = 16

Inputs = Sequence[str | os.PathLike[str]] | str | os.PathLike[str]
NoteKind = Literal["unknown_kind", "compressed_against_name"]


@dataclass(frozen=True, kw_only=True)
class Note:
    """One file worth a remark, for the job's report."""

    kind: NoteKind
    path: str
    message: str


@dataclass(frozen=True, kw_only=True)
class TextPlan:
    """All splits in order, and what was noted while planning."""

    splits: tuple[Split, ...]
    notes: tuple[Note, ...]


def plan_texts(inputs: Inputs, options: TextOptions) -> TextPlan:
    """Return the plan; reading its splits in order gives all documents in order.

    StorageError for inputs that name no file, ConfigError for a listed file of unknown kind, and for folders and globs
    without a single file of a known one; DataError for files that their kind can't be planned from.
    """
    splits: list[Split] = []
    notes: list[Note] = []
    num_files = 0
    found = expand_inputs(inputs)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Only at URLs are there round trips to wait for.
        planned = (pool.map if any(is_url(item.path) for item in found) else map)(partial(_plan, options), found)
        for here, note in planned:
            if note is not None:
                notes.append(note)
            if here is not None:
                num_files += 1
                splits += here
    if not num_files:
        raise ConfigError(f"no file of a known kind among {len(notes)}: {notes[0].message}")
    return TextPlan(splits=tuple(splits), notes=tuple(notes))


def _plan(options: TextOptions, item: InputPath) -> tuple[list[Split] | None, Note | None]:
    file, note = _identify(item, options)
    return None if file is None else list(SOURCES[file.kind].plan(file, options)), note


def _identify(item: InputPath, options: TextOptions) -> tuple[SourceFile | None, Note | None]:
    path = item.path
    named, claimed = named_kind(path)
    kind: Kind | None = "mds" if item.mds else named
    if options.kind != "auto" and not (item.mds and options.kind == "mds"):
        kind = options.kind
    if kind == "mds" and not item.mds:
        raise ConfigError(f"{path}: expected an MDS folder or its index.json")
    if kind is None:
        known = ", ".join(KIND_SUFFIXES)
        message = f"{path}: nothing tells its kind; known are {known}, each also compressed; or set `kind`"
        if item.listed:
            raise ConfigError(message)
        return None, Note(kind="unknown_kind", path=path, message=f"left out {message}")
    num_bytes = _size(path) if item.num_bytes is None else item.num_bytes
    compression = "none" if kind == "mds" else detect_compression(file_head(path, num_bytes, item.etag), path)
    file = SourceFile(path=path, kind=kind, compression=compression, num_bytes=num_bytes, etag=item.etag)
    if compression == claimed or not num_bytes:
        return file, None
    message = f"{path}: the name says compression {claimed}, the bytes say {compression}; read by its bytes"
    return file, Note(kind="compressed_against_name", path=path, message=message)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise StorageError(f"{path}: can't be read: {error.strerror}") from error
