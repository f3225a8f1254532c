"""``tokenyard index``: write down what a corpus that others made doesn't say itself, or rebuild row indexes of ours.

Nothing but ``.tokenyard/`` is ever written, the manifest last. There is no marker as for corpora being made: the shards
are whole, and without the manifest they open as before. So nothing keeps a second run away, and what lies in the
temporary folder may be its own: it is left alone. Two runs write the same files.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tokenyard.corpus.corpus import Corpus
from tokenyard.corpus.index_cache import keep_digests
from tokenyard.corpus.locating import bucket, is_remote
from tokenyard.corpus.opening import (
    Found,
    discover,
    incomplete,
    listing_id,
    names_of,
    plain_options,
    read_options,
)
from tokenyard.corpus.paths import local_path
from tokenyard.corpus.places import INDEX_JOB
from tokenyard.corpus.shards import read_index
from tokenyard.digest import Digests, digest_of
from tokenyard.errors import (
    ConfigError,
    DataError,
    NotACorpusError,
    StorageError,
    VerificationError,
)
from tokenyard.formats.base import ReadOptions
from tokenyard.formats.index import ShardIndex, most_even
from tokenyard.formats.registry import get_format
from tokenyard.manifest import HOME, MANIFEST_NAME, MARKER_NAME, Manifest, ShardInfo
from tokenyard.storage import Folder, checksum


def index_corpus(
    path: str | os.PathLike[str], *, format: str = "auto", force: bool = False, **options: Any
) -> Manifest:
    """Index a folder, and return its manifest.

    A corpus that others made gets row indexes, checksums and a content digest in ``.tokenyard/``; where that can't be
    written, a warning says so and the user's cache keeps indexes and digest; of a URL it always does. ``format`` and
    ``options`` are those of ``open_corpus``. A corpus of ours gets back row indexes that are lost or damaged, if the
    shards themselves say where rows begin and the digest proves it. Nothing is done for a corpus that is whole, unless
    ``force``.

    Raises NotACorpusError, IncompleteCorpusError, DataError, ConfigError, StorageError, and VerificationError when
    rebuilt indexes give other rows.
    """
    chosen = read_options(options)
    if is_remote(path):
        return _index_remote(str(path), format, chosen)
    folder = Folder(local_path(path))
    if not folder.path.is_dir():
        what = "a file; move it into a folder of its own, as" if folder.path.is_file() else "no such folder;"
        raise NotACorpusError(f"{folder.path}: {what} 'tokenyard index' takes the folder of a corpus")
    if folder.exists(MANIFEST_NAME):
        manifest = Manifest.from_json(folder.read(MANIFEST_NAME), str(folder.at(MANIFEST_NAME)))
        if format not in ("auto", manifest.format):
            raise ConfigError(f"{folder.path} is a corpus in format {manifest.format}, not {format}; use format: auto")
        if manifest.provenance.get("job") == INDEX_JOB:
            return _index_again(folder, manifest, chosen, force)
        return _rebuild(folder, manifest, force)
    if folder.exists(MARKER_NAME):
        raise incomplete(folder)
    return _write(folder, discover(folder, folder.list(), format, chosen), chosen)


def _index_remote(url: str, format: str, options: ReadOptions) -> Manifest:
    """What was found out about a corpus of others at a URL goes into the user's cache; nothing is written there."""
    folder: Folder = bucket(url, "auto")
    if folder.exists(MANIFEST_NAME):
        raise ConfigError(
            f"{url}: has a manifest already, and row indexes are rebuilt on a disk; copy the corpus to one, index it "
            "there, and upload it"
        )
    if folder.exists(MARKER_NAME):
        raise incomplete(folder)
    folder, names = names_of(folder)
    found = discover(folder, names, format, options)
    digests = _digest(folder, found.manifest, found.indexes)
    if keep_digests(found.keys, digests) is None:
        raise StorageError(f"{url}: the user's cache, where its index goes, can't be written; set TOKENYARD_CACHE")
    return replace(found.manifest, digests=digests)


def _index_again(folder: Folder, manifest: Manifest, options: ReadOptions, force: bool) -> Manifest:
    said = manifest.provenance.get("options", {})
    if not plain_options(options):
        options = read_options(said)
    found = discover(folder, folder.list(), manifest.format, options)
    same = plain_options(options) == said and _outline(found.manifest) == _outline(manifest)
    if same and not force and not _damaged(folder, manifest.shards):
        return manifest
    return _write(folder, found, options)


def _outline(manifest: Manifest) -> list[tuple[Any, ...]]:
    return [([(f.name, f.bytes) for f in s.files], s.num_rows, s.num_tokens) for s in manifest.shards]


def _write(folder: Folder, found: Found, options: ReadOptions) -> Manifest:
    digests = _digest(folder, found.manifest, found.indexes)
    shards = [
        replace(s, files=tuple(replace(f, checksum=checksum(folder.map(f.name, f.bytes))) for f in s.files))
        for s in found.manifest.shards
    ]
    provenance = {"job": INDEX_JOB, "options": plain_options(options), "listing": listing_id(folder.list())}
    manifest = replace(found.manifest, digests=digests, provenance=provenance)
    try:
        return _publish(folder, manifest, shards, dict(enumerate(found.indexes)))
    except StorageError as e:
        kept_in = keep_digests(found.keys, digests)
        if kept_in is None:
            raise
        warnings.warn(
            f"{folder.path}: can't be written to, so its index is kept in {kept_in}, for this user only ({e})",
            stacklevel=3,
        )
        return replace(manifest, shards=tuple(shards))


def _rebuild(folder: Folder, manifest: Manifest, force: bool) -> Manifest:
    shards = list(manifest.shards)
    lost = range(len(shards)) if force else _damaged(folder, shards)
    if not lost:
        return manifest
    format = get_format(manifest.format)
    found = format.discover(folder, folder.list(), ReadOptions())
    sources = {s.files[0].name: s for s in found.shards} if found else {}
    rebuilt: dict[int, ShardIndex] = {}
    for i in lost:
        shard = shards[i]
        source = sources.get(shard.name)
        if found is None or source is None:
            raise DataError(f"{folder.at(shard.name)}: not among the shards of format {manifest.format}; restore it")
        rebuilt[i] = format.scan(folder, source, found.schema)
        if (rebuilt[i].num_rows, rebuilt[i].num_tokens) != (shard.num_rows, shard.num_tokens):
            raise DataError(
                f"{folder.at(shard.name)}: the file alone says {rebuilt[i].num_rows} rows, {rebuilt[i].num_tokens} "
                f"tokens, the manifest {shard.num_rows} and {shard.num_tokens}; its row index can't be rebuilt, "
                f"restore {shard.index.name if shard.index else 'it'} from a copy"
            )
    indexes = [rebuilt[i] if i in rebuilt else _intact(folder, s) for i, s in enumerate(shards)]
    digests = _digest(folder, manifest, indexes)
    if manifest.digests is None or (differs := manifest.digests.differences(digests)):
        raise VerificationError(
            f"{folder.path}: with the rebuilt row indexes its rows are not those of the manifest's digest "
            f"({'; '.join(differs) if manifest.digests else 'there is none'}); nothing was changed, restore the "
            "corpus from a copy"
        )
    return _publish(folder, manifest, shards, rebuilt)


def _digest(folder: Folder, manifest: Manifest, indexes: Sequence[ShardIndex]) -> Digests:
    corpus = Corpus(folder, manifest, get_format(manifest.format), indexes)
    return digest_of(corpus.batches(), manifest.schema.fields)


def _publish(folder: Folder, manifest: Manifest, shards: list[ShardInfo], indexes: dict[int, ShardIndex]) -> Manifest:
    """Write the indexes given and the manifest that names them."""
    for i, index in indexes.items():
        known = shards[i].index
        name = known.name if known else f"{HOME}/index/shard-{i:05d}.idx"
        shards[i] = replace(shards[i], index=folder.write(name, index.to_bytes(most_even(shards[i].num_bytes))))
    manifest = replace(manifest, shards=tuple(shards))
    folder.write(MANIFEST_NAME, manifest.to_json().encode())
    return manifest


def _damaged(folder: Folder, shards: Sequence[ShardInfo]) -> list[int]:
    """The shards whose row index is lost or is not the one that the manifest names."""
    found = []
    for i, shard in enumerate(shards):
        try:
            _intact(folder, shard)
        except (DataError, StorageError):
            found.append(i)
    return found


def _intact(folder: Folder, shard: ShardInfo) -> ShardIndex:
    if shard.index is None:
        raise DataError(f"{folder.at(shard.name)}: the manifest names no row index")
    return read_index(folder, shard.index, shard.num_bytes)
