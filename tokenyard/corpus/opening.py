"""Opening a corpus: one of ours by its manifest, one that others made by asking each format.

Opening never writes into a folder. The row indexes of other people's shards are built once and kept in the user's
cache, known by the files' names, sizes and times; ``tokenyard index`` writes them into the folder instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenyard.corpus.claim import is_held
from tokenyard.corpus.corpus import Corpus
from tokenyard.corpus.index_cache import indexed, known_digests, shard_key
from tokenyard.corpus.locating import ReadOption, locate, single_object
from tokenyard.corpus.places import INDEX_JOB
from tokenyard.errors import (
    ConfigError,
    DataError,
    IncompleteCorpusError,
    NotACorpusError,
    StorageError,
)
from tokenyard.formats.base import Discovered, Format, OnBad, ReadOptions, explain
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.registry import format_names, get_format
from tokenyard.manifest import MANIFEST_NAME, MARKER_NAME, Manifest, ShardInfo
from tokenyard.storage import Bucket, Folder, checksum


def open_corpus(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str = "auto",
    read: ReadOption = "auto",
    cache_bytes: int = 1 << 30,
    **options: Any,
) -> Corpus:
    """Open a folder, a single file, a list of files, or a URL (``s3://``, ``gs://``, ``az://``, ``hf://``, ``https://``).

    ``format`` is checked when given. ``options`` (ReadOptions: ``tokens``, ``token_dtype``, ``fields``, ``split``) say
    of a corpus that others made what it doesn't say itself.

    ``read`` says how the bytes of raw shards come, those of npy, mds and webdataset: ``mmap`` (memory maps), ``pread``
    (ranges, read into memory of our own), or ``auto``: ``pread`` of URLs and on network file systems, else ``mmap``.
    Nothing but speed and memory depends on it. ``cache_bytes`` bounds the memory for storage blocks decoded, or read by
    ``pread``.

    Raises NotACorpusError, IncompleteCorpusError (a job's marker without a manifest), DataError, ConfigError.
    """
    return _open(path, format, read, cache_bytes, options, None)


def open_readable(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    on_bad: OnBad,
    *,
    format: str = "auto",
    read: ReadOption = "auto",
    cache_bytes: int = 1 << 30,
    **options: Any,
) -> Corpus:
    """As ``open_corpus``; but of a corpus that others made, shards that can't be indexed are left out and told.

    That shards have changed since they were indexed is told too, of none by name ("").

    Raises what ``open_corpus`` raises, where leaving out files doesn't help.
    """
    return _open(path, format, read, cache_bytes, options, on_bad)


def _open(
    path: Any, format: str, read: ReadOption, cache_bytes: int, options: Mapping[str, Any], on_bad: OnBad | None
) -> Corpus:
    chosen = read_options(options)
    folder, listed = locate(path, read)
    names = listed
    if names is None:
        if (manifest := _manifest_bytes(folder)) is not None:
            return _open_own(folder, manifest, format, chosen, cache_bytes, on_bad)
        if folder.exists(MARKER_NAME):
            raise incomplete(folder)
        folder, names = names_of(folder)
    found = discover(folder, names, format, chosen, on_bad)
    used = {file.name for shard in found.manifest.shards for file in shard.files}
    if (
        on_bad is None
        and listed is not None
        and len(listed) > 1
        and (others := [name for name in listed if name not in used])
    ):
        raise DataError(
            f"{folder.path}: {others[0]} is not read with the other files, as format {found.format.name}; a list "
            "names the files of one corpus, in one format: open the others apart"
        )
    return Corpus(folder, found.manifest, found.format, found.indexes, cache_bytes=cache_bytes)


def _manifest_bytes(folder: Folder) -> bytes | None:
    if isinstance(folder, Bucket):
        return folder.read_voucher(MANIFEST_NAME)
    return folder.read(MANIFEST_NAME) if folder.exists(MANIFEST_NAME) else None


def names_of(folder: Folder) -> tuple[Folder, list[str]]:
    """The names of the files of a folder without a manifest; of a URL of one object, the folder around it.

    Where a format's own index is (MDS's index.json), it names all others, and no bucket is listed. Raises
    NotACorpusError, StorageError, DataError.
    """
    if not isinstance(folder, Bucket):
        return folder, folder.list()
    indexed = {f.index_name: f for f in map(get_format, format_names()) if f.index_name}
    for name, format in indexed.items():
        if (data := folder.read_voucher(name)) is not None and format.is_index(data, str(folder.at(name))):
            return folder, [name]
    folder.forget_voucher()
    names = folder.list() if folder.objects.lists else []
    if not names and (found := single_object(folder)) is not None:
        return found
    if not folder.objects.lists:
        raise NotACorpusError(
            f"{folder.path}: web servers don't list, so a corpus there needs {' or '.join([MANIFEST_NAME, *indexed])}, "
            "and none is there; name a file of it, or run 'tokenyard index' before it is uploaded"
        )
    return folder, names


def incomplete(folder: Folder) -> IncompleteCorpusError:
    """Says of a folder with a marker and no manifest whether somebody is at it."""
    if isinstance(folder, Bucket):
        return IncompleteCorpusError(
            f"{folder.path}: a job has begun here and has not finished ({MARKER_NAME} is there, the manifest is not); "
            "wait for its end, or run it again, so that it goes on"
        )
    if is_held(folder.path):
        return IncompleteCorpusError(f"{folder.path}: a job is making this corpus right now; wait for its end")
    return IncompleteCorpusError(
        f"{folder.path}: a job began here and did not finish ({MARKER_NAME} is there, the manifest is not); "
        "run the job again; it goes on, or says that it needs --overwrite"
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """A corpus that others made: all that is known of it. ``keys`` are what the cache knows its shards by."""

    format: Format
    manifest: Manifest
    indexes: tuple[ShardIndex, ...]
    keys: tuple[str, ...]


def discover(
    folder: Folder, names: Sequence[str], format: str, options: ReadOptions, on_bad: OnBad | None = None
) -> Found:
    """Recognize and index the files of a corpus that others made. Raises NotACorpusError, DataError, ConfigError."""
    chosen, corpus = _ask_formats(folder, names, format, options, on_bad)
    keys, indexes, shards = [], [], []
    for source in corpus.shards:
        try:
            key = shard_key(folder, chosen, source, options)
            index = indexed(folder, chosen, source, corpus.schema, key)
        except (DataError, StorageError) as e:
            if on_bad is None:
                raise
            on_bad(source.files[0].name, e)
            continue
        keys.append(key)
        indexes.append(index)
        shards.append(
            ShardInfo(files=source.files, num_rows=index.num_rows, num_tokens=index.num_tokens, meta=source.meta)
        )
    manifest = Manifest(
        format=chosen.name,
        schema=corpus.schema,
        shards=tuple(shards),
        digests=known_digests(keys) if len(shards) == len(corpus.shards) else None,
        meta=corpus.meta,
    )
    return Found(format=chosen, manifest=manifest, indexes=tuple(indexes), keys=tuple(keys))


def read_options(values: Mapping[str, Any]) -> ReadOptions:
    """Options from plain values. Raises ConfigError that names the option and what is known."""
    if not isinstance(values, Mapping):  # out of a manifest
        raise ConfigError(f"options for reading are {values!r:.60}, expected names and values")
    known = ReadOptions.model_fields
    if unknown := sorted(set(values) - set(known)):
        raise ConfigError(
            f"open_corpus has no option {', '.join(unknown)}; it has format, read, cache_bytes, {', '.join(known)}"
        )
    try:
        return ReadOptions(**values)
    except ValueError as e:
        raise ConfigError(f"options for reading: {explain(e)}") from None


def listing_id(names: Sequence[str]) -> str:
    """What the names of all files of a folder are known by."""
    return checksum("\n".join(sorted(names)).encode("utf-8", "surrogateescape"))


def plain_options(options: ReadOptions) -> dict[str, Any]:
    """The options that were given, as JSON values."""
    return options.model_dump(mode="json", exclude_none=True)


def _open_own(
    folder: Folder, data: bytes, format: str, options: ReadOptions, cache_bytes: int, on_bad: OnBad | None
) -> Corpus:
    manifest = Manifest.from_json(data, str(folder.at(MANIFEST_NAME)))
    if format not in ("auto", manifest.format):
        raise ConfigError(f"{folder.path} is a corpus in format {manifest.format}, not {format}; use format: auto")
    given, said = plain_options(options), manifest.provenance.get("options", {})
    if given and manifest.provenance.get("job") == INDEX_JOB and given != said:
        raise ConfigError(
            f"{folder.path} was indexed with the options {said or 'none'}, not {given}; leave them out, or index it "
            "again: tokenyard index --force"
        )
    if manifest.provenance.get("job") == INDEX_JOB:
        try:
            # Elsewhere it would take a listing at every opening; there sizes and etags are checked as files are read.
            if folder.asks_cheaply:
                _check_unchanged(folder, manifest, said)
        except DataError as e:
            if on_bad is None:
                raise
            on_bad("", e)
    elif given:
        raise ConfigError(
            f"{folder.path} is a corpus that tokenyard made, whose manifest says all of it; leave out "
            + ", ".join(given)
        )
    return Corpus(folder, manifest, get_format(manifest.format), cache_bytes=cache_bytes)


def _check_unchanged(folder: Folder, manifest: Manifest, options: Mapping[str, Any]) -> None:
    """Refuse a folder of others whose shards are no more those that were indexed: they may go on writing.

    Shards are only asked about where names in the folder are others than then; sizes are checked when they are read.
    """
    names = folder.list()
    if manifest.provenance.get("listing") == listing_id(names):
        return
    found = get_format(manifest.format).discover(folder, names, read_options(options))
    now = {f.name: f.bytes for shard in found.shards for f in shard.files} if found else {}
    then = {f.name: f.bytes for shard in manifest.shards for f in shard.files}
    if now == then:
        return
    changes = {
        "new": sorted(now.keys() - then.keys()),
        "missing": sorted(then.keys() - now.keys()),
        "of another size": sorted(name for name in now.keys() & then.keys() if now[name] != then[name]),
    }
    told = "; ".join(f"{len(names)} {what}, such as {names[0]}" for what, names in changes.items() if names)
    raise DataError(
        f"{folder.path}: it was indexed, and its shards have changed since ({told}); run 'tokenyard index "
        f"{folder.path}' again"
    )


def _ask_formats(
    folder: Folder, names: Sequence[str], format: str, options: ReadOptions, on_bad: OnBad | None
) -> tuple[Format, Discovered]:
    for name in format_names() if format == "auto" else (format,):
        candidate = get_format(name)
        if on_bad is None:
            found = candidate.discover(folder, names, options)
        else:
            found = candidate.discover_readable(folder, names, options, on_bad)
        if found is not None:
            return candidate, found
    wanted = f"one of the formats {', '.join(format_names())}" if format == "auto" else f"format {format}"
    shown = ", ".join(names[:5]) or "no files"
    raise NotACorpusError(f"{folder.path}: no tokenyard manifest, and not a corpus of {wanted} (found {shown})")
