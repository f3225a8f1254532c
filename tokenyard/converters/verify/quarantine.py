"""A corpus of the good part of a damaged one: the same files, linked or else copied, and a manifest of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from tokenyard.converters.job import digest_corpus, provenance
from tokenyard.converters.verify.report import Loss
from tokenyard.converters.workers import Workers
from tokenyard.corpus import Corpus, destination, publish_manifest, with_files
from tokenyard.errors import VerificationError
from tokenyard.formats.registry import get_format
from tokenyard.manifest import HOME, FileInfo, ShardInfo
from tokenyard.storage import Folder, checksum, sync_folder


def write_good_part(
    corpus: Corpus, bad: Sequence[int], uncounted: Sequence[str], path: str | os.PathLike[str], num_workers: int
) -> Loss:
    """Make a corpus at ``path`` of all shards but ``bad``, and say what it leaves out; its provenance says it too.

    Its files are hard links to those of ``corpus``; copies on another file system, or one without links. What is left
    is read once more, for a digest of its own. ``uncounted``: shards that ``corpus`` doesn't have, since they can't be
    indexed.

    Raises VerificationError when no shard is left, DestinationExistsError, StorageError.
    """
    shards, left_out = corpus.manifest.shards, frozenset(bad)
    good = [i for i in range(len(shards)) if i not in left_out]
    if not good:
        raise VerificationError(f"{corpus.path}: none of its shards is whole, so nothing was written to {path}")
    loss = Loss(
        path=os.fspath(path),
        shards=(*(shards[i].name for i in bad), *uncounted),
        num_rows=sum(shards[i].num_rows for i in bad),
        num_tokens=sum(shards[i].num_tokens for i in bad),
        num_uncounted_shards=len(uncounted),
    )
    format = get_format(corpus.format)
    with destination(path, with_files({"job": "quarantine"}, format)) as folder:
        with folder.synced_together():
            kept = tuple(_take_over(corpus, i, folder) for i in good)
        files = [file for shard in kept for file in (*shard.files, *([shard.index] if shard.index else ()))]
        for parent in {parent for file in files for parent in folder.at(file.name).parents}:
            if parent.is_relative_to(folder.path):
                sync_folder(parent)
        manifest = replace(corpus.manifest, shards=kept, digests=None, files=(), provenance=_provenance(corpus, loss))
        digests = digest_corpus(Corpus(folder, manifest, format, cache_bytes=0), Workers(num_workers=num_workers))
        publish_manifest(folder, format, replace(manifest, digests=digests))
    return loss


def _provenance(corpus: Corpus, loss: Loss) -> dict[str, Any]:
    lost = {**asdict(loss), "num_shards": loss.num_shards, "shards": list(loss.shards)}
    del lost["path"]
    return provenance("quarantine", {}, corpus, lost=lost)


def _take_over(corpus: Corpus, shard: int, folder: Folder) -> ShardInfo:
    info = corpus.manifest.shards[shard]
    files = tuple(_link(corpus.folder, file, folder) for file in info.files)
    if info.index is not None:
        return replace(info, files=files, index=_link(corpus.folder, info.index, folder))
    index = folder.write(f"{HOME}/index/shard-{shard:05d}.idx", corpus.shard_index(shard).to_bytes())
    return replace(info, files=files, index=index)


def _link(source: Folder, file: FileInfo, folder: Folder) -> FileInfo:
    """The same file in another folder. Its checksum is what the manifest says, or what is found now."""
    origin, target = os.path.realpath(source.at(file.name)), folder.at(file.name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(origin, target)
    except OSError:  # another file system, or one without links
        with folder.publish(file.name) as copy:
            copy.write(source.map(file.name, file.bytes))
        return copy.info
    return file if file.checksum else replace(file, checksum=checksum(source.map(file.name, file.bytes)))
