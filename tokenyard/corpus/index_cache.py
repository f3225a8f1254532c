"""What was found out about corpora that others made, kept in the user's cache so that it is found out once.

An entry is known by the folder's path, the options it was read with, and the names, sizes and times of its files, so a
file that changes is looked at again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenyard.digest import Digests
from tokenyard.errors import DataError
from tokenyard.formats.base import Format, ReadOptions, ShardSource
from tokenyard.formats.index import ShardIndex
from tokenyard.schema import Schema
from tokenyard.storage import Folder
from tokenyard.storage.user_cache import cache_folder, cache_key, recall, remember

#: Part of every key: raise it when indexes of another kind are to be built.
_VERSION = 1


def shard_key(folder: Folder, format: Format, shard: ShardSource, options: ReadOptions) -> str:
    """What an unchanged shard is known by, read in this way."""
    files = [(f.name, f.bytes, folder.modified(f.name)) for f in shard.files]
    return _key("index", folder.identity, format.name, files, dict(shard.meta), options.model_dump())


def indexed(folder: Folder, format: Format, shard: ShardSource, schema: Schema, key: str) -> ShardIndex:
    """The row index of a shard: from the cache, else scanned and put there. Raises DataError."""
    name = f"index/{key[:2]}/{key}.idx"
    where = str(folder.at(shard.files[0].name))
    if (data := recall(name)) is not None:
        try:
            return ShardIndex.from_bytes(data, where)
        except DataError:
            pass  # a damaged entry is built again
    data = format.scan(folder, shard, schema).to_bytes()
    remember(name, data)
    # As it would come from the cache, so that the first opening is like every later one.
    return ShardIndex.from_bytes(data, where)


def known_digests(shard_keys: Sequence[str]) -> Digests | None:
    """The digests of a corpus with these shards, if they were computed once."""
    data = recall(_digests_name(shard_keys))
    try:
        said = json.loads(data) if data else None
        return Digests(tokens=said["tokens"], fields=said["fields"]) if said else None
    except (ValueError, KeyError, TypeError):
        return None


def keep_digests(shard_keys: Sequence[str], digests: Digests) -> Path | None:
    """Keep the digests of a corpus. Returns the cache's folder; None when it can't be written."""
    said = {"tokens": digests.tokens, "fields": dict(digests.fields)}
    return cache_folder() if remember(_digests_name(shard_keys), json.dumps(said).encode()) else None


def _digests_name(shard_keys: Sequence[str]) -> str:
    key = _key("digests", *shard_keys)
    return f"digests/{key[:2]}/{key}.json"


def _key(*known_by: Any) -> str:
    return cache_key(_VERSION, *known_by)
