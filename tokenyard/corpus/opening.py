"""Opening a corpus: one of ours by its manifest, one that others made by asking each format.

Opening never writes into a folder. The row indexes of other people's shards are built once and kept in the user's cache
(``TOKENYARD_CACHE``, else ``~/.cache/tokenyard``), known by the files' names, sizes and times; ``tokenyard index`` writes
them into the folder instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenyard.corpus.corpus import Corpus
from tokenyard.corpus.destination import local_path
from tokenyard.errors import ConfigError, DataError, IncompleteCorpusError, NotACorpusError, StorageError
from tokenyard.formats.base import Discovered, Format, ReadOptions, ShardSource
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.registry import format_names, get_format
from tokenyard.manifest import MANIFEST_NAME, MARKER_NAME, Manifest, ShardInfo
from tokenyard.storage import Folder, checksum


def open_corpus(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str = "auto",
    cache_bytes: int = 1 << 30,
    **options: Any,
) -> Corpus:
    """Open a folder, a single file, a list of files, or a ``file://`` URL.

    ``format`` is checked when given. ``options`` (ReadOptions: ``tokens``, ``token_dtype``, ``fields``, ``split``) say of a
    corpus that others made what it doesn't say itself. ``cache_bytes`` bounds the memory for decoded storage blocks.

    Raises NotACorpusError, IncompleteCorpusError (a job's marker without a manifest), DataError, ConfigError.
    """
    read_options = _read_options(options)
    folder, names = _locate(path)
    if names is None:
        if folder.exists(MANIFEST_NAME):
            manifest = Manifest.from_json(folder.read(MANIFEST_NAME), str(folder.at(MANIFEST_NAME)))
            if format not in ("auto", manifest.format):
                raise ConfigError(
                    f"{folder.path} is a corpus in format {manifest.format}, not {format}; use format: auto"
                )
            return Corpus(folder, manifest, get_format(manifest.format), cache_bytes=cache_bytes)
        if folder.exists(MARKER_NAME):
            raise IncompleteCorpusError(
                f"{folder.path}: a job began here and did not finish ({MARKER_NAME} is there, the manifest is not); "
                "run the job again with --overwrite"
            )
        names = folder.list()
    found, discovered = _discover(folder, names, format, read_options)
    indexes = [_index(folder, found, s, discovered, read_options) for s in discovered.shards]
    shards = tuple(
        ShardInfo(files=s.files, num_rows=i.num_rows, num_tokens=i.num_tokens, meta=s.meta)
        for s, i in zip(discovered.shards, indexes, strict=True)
    )
    manifest = Manifest(format=found.name, schema=discovered.schema, shards=shards, meta=discovered.meta)
    return Corpus(folder, manifest, found, indexes, cache_bytes=cache_bytes)


def _read_options(values: Mapping[str, Any]) -> ReadOptions:
    known = ReadOptions.model_fields
    if unknown := sorted(set(values) - set(known)):
        raise ConfigError(
            f"open_corpus has no option {', '.join(unknown)}; it has format, cache_bytes, {', '.join(known)}"
        )
    try:
        return ReadOptions(**values)
    except ValueError as e:
        raise ConfigError(f"options for reading: {e}") from None


def _locate(path: Any) -> tuple[Folder, list[str] | None]:
    """The folder, and the names of the files when these were given and not the folder itself."""
    if isinstance(path, str | os.PathLike):
        local = local_path(path)
        if local.is_dir():
            return Folder(local), None
        if local.is_file():
            return Folder(local.parent), [local.name]
        raise NotACorpusError(f"{local}: no such file or folder")
    files = [local_path(p).absolute() for p in path]
    if not files:
        raise NotACorpusError("an empty list of files is no corpus")
    for file in files:
        if not file.is_file():
            raise NotACorpusError(f"{file}: no such file (a list names the files of one corpus, in order)")
    parent = Path(os.path.commonpath([f.parent for f in files]))
    return Folder(parent), [f.relative_to(parent).as_posix() for f in files]


def _discover(folder: Folder, names: Sequence[str], format: str, options: ReadOptions) -> tuple[Format, Discovered]:
    for name in format_names() if format == "auto" else (format,):
        candidate = get_format(name)
        found = candidate.discover(folder, names, options)
        if found is not None:
            return candidate, found
    wanted = "any of " + ", ".join(format_names()) if format == "auto" else format
    shown = ", ".join(names[:5]) or "no files"
    raise NotACorpusError(f"{folder.path}: no tokenyard manifest, and not a corpus of format {wanted} (found {shown})")


def _index(folder: Folder, format: Format, shard: ShardSource, corpus: Discovered, options: ReadOptions) -> ShardIndex:
    path = _cached_at(folder, format, shard, options)
    where = str(folder.at(shard.files[0].name))
    if path.is_file():
        try:
            return ShardIndex.from_bytes(path.read_bytes(), where)
        except DataError:
            pass  # a damaged cache entry is built again
    index = format.scan(folder, shard, corpus.schema)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        Folder(path.parent).write(path.name, index.to_bytes())
    except (StorageError, OSError):
        pass  # a cache that can't be written costs time, nothing else
    return index


def _cached_at(folder: Folder, format: Format, shard: ShardSource, options: ReadOptions) -> Path:
    files = [(f.name, f.bytes, folder.at(f.name).stat().st_mtime_ns) for f in shard.files]
    known_by = [str(folder.path.absolute()), format.name, files, dict(shard.meta), options.model_dump()]
    key = checksum(json.dumps(known_by, sort_keys=True, default=str).encode()).removeprefix("blake3:")
    home = os.environ.get("TOKENYARD_CACHE") or Path("~/.cache/tokenyard").expanduser()
    return Path(home) / "index" / key[:2] / f"{key}.idx"
