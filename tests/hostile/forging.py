"""Corpora whose manifest and row indexes say what somebody wants, with checksums that fit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard.formats.index import ShardIndex
from tokenyard.manifest import MANIFEST_NAME
from tokenyard.storage import checksum


def forge_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what the manifest says of the first shard."""
    path = folder / MANIFEST_NAME
    manifest = json.loads(path.read_text())
    change(manifest["shards"][0])
    for total in ("rows", "tokens"):
        manifest[total] = sum(shard[total] for shard in manifest["shards"])
    path.write_text(json.dumps(manifest))


def forge_file(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes in the place of a file of the first shard."""
    (folder / name).write_bytes(data)

    def change(shard: dict[str, Any]) -> None:
        for entry in [*shard["files"], shard["index"]]:
            if entry[0] == name:
                entry[1:] = [len(data), checksum(data)]

    forge_manifest(folder, change)


def forge_index(folder: Path, meta: dict[str, Any] | None = None, **arrays: Any) -> None:
    """Change arrays of the first shard's row index, by their names (None: not there), or its ``meta``."""
    name = json.loads((folder / MANIFEST_NAME).read_text())["shards"][0]["index"][0]
    index = ShardIndex.from_bytes((folder / name).read_bytes(), name)
    found = {**index.arrays, **{k: np.asarray(v, np.int64) for k, v in arrays.items() if v is not None}}
    for gone in (k for k, v in arrays.items() if v is None):
        del found[gone]
    forge_file(folder, name, replace(index, arrays=found, meta={**index.meta, **(meta or {})}).to_bytes())
