"""``index.json`` of an MDS dataset, version 2: read from others with every problem found, written for ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from tokenyard.errors import DataError
from tokenyard.formats.mds.columns import MAX_SHARD_BYTES, MdsColumn
from tokenyard.formats.shared.compression import LEVELS
from tokenyard.manifest import check_name
from tokenyard.storage import Folder

INDEX_NAME = "index.json"
_VERSION = 2
#: Problems told at once.
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class MdsShard:
    """One shard: the raw file, and the compressed one when there is one (``compression`` without its level)."""

    samples: int
    columns: tuple[MdsColumn, ...]
    raw_name: str
    raw_bytes: int
    zip_name: str | None = None
    zip_bytes: int | None = None
    compression: str | None = None


def columns_config(columns: Sequence[MdsColumn], compression: str | None) -> dict[str, Any]:
    """What a shard says of its columns, in its own header and in ``index.json``."""
    return {
        "version": _VERSION,
        "format": "mds",
        "compression": compression,
        "hashes": [],
        "size_limit": None,
        "column_names": [c.name for c in columns],
        "column_encodings": [c.encoding for c in columns],
        "column_sizes": [c.size for c in columns],
    }


def to_json(shards: Sequence[MdsShard]) -> bytes:
    """``index.json`` as the library writes it."""
    entries = [
        {
            **columns_config(shard.columns, shard.compression),
            "samples": shard.samples,
            "raw_data": {"basename": shard.raw_name, "bytes": shard.raw_bytes, "hashes": {}},
            "zip_data": shard.zip_name and {"basename": shard.zip_name, "bytes": shard.zip_bytes, "hashes": {}},
        }
        for shard in shards
    ]
    return json.dumps({"version": _VERSION, "shards": entries}, sort_keys=True).encode()


def from_json(data: bytes, where: str) -> list[MdsShard] | None:
    """The shards that ``index.json`` names; None when it is not one of StreamingDataset's at all.

    Raises DataError with the problems found: another version or format, impossible sizes, names that lead outside.
    """
    try:
        index = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(index, dict) or not isinstance(index.get("shards"), list) or "version" not in index:
        return None
    if index["version"] != _VERSION:
        raise DataError(
            f"{where}: version {index['version']!r} of StreamingDataset's index, tokenyard reads {_VERSION}; "
            "write the dataset again with mosaicml-streaming 0.13"
        )
    problems: list[str] = []
    shards = [s for i, entry in enumerate(index["shards"]) if (s := _shard(i, entry, problems))]
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise DataError(f"{where}: " + "; ".join(problems[:_SHOWN]) + more)
    return shards


def find(folder: Folder, names: Sequence[str]) -> list[MdsShard] | None:
    """The shards that the folder's ``index.json`` names; None when nothing here is MDS. Raises DataError."""
    if INDEX_NAME in names:
        found = from_json(folder.read(INDEX_NAME), str(folder.at(INDEX_NAME)))
        if found is not None:
            return found
    nested = [n.removesuffix(f"/{INDEX_NAME}") for n in names if n.endswith(f"/{INDEX_NAME}") and _is_mds(folder, n)]
    if nested:
        raise DataError(
            f"{folder.path}: no {INDEX_NAME} here, but one in each of {', '.join(nested[:5])}"
            + (f" and {len(nested) - 5} more" if len(nested) > 5 else "")
            + "; each folder is a corpus of its own, open one of them"
        )
    shards = [n for n in names if ".mds" in PurePosixPath(n).suffixes]
    if shards:
        raise DataError(
            f"{folder.at(shards[0])}: an MDS shard without StreamingDataset's {INDEX_NAME} beside it; "
            + ("that file is damaged, restore it" if INDEX_NAME in names else "restore it, and open the folder")
        )
    return None


def _is_mds(folder: Folder, name: str) -> bool:
    try:
        return from_json(folder.read(name), name) is not None
    except DataError:
        return True


def _shard(i: int, entry: Any, problems: list[str]) -> MdsShard | None:
    where = f"shards[{i}]"
    try:
        if entry["format"] != "mds" or entry["version"] != _VERSION:
            raise ValueError(f"format {entry['format']!r} version {entry['version']!r}, tokenyard reads mds version 2")
        names, encodings, sizes = entry["column_names"], entry["column_encodings"], entry["column_sizes"]
        if not len(names) == len(encodings) == len(sizes):
            raise ValueError("column_names, column_encodings and column_sizes differ in length")
        columns = tuple(
            MdsColumn(name=_text(n), encoding=_text(e), size=None if s is None else _count(s, "column_sizes"))
            for n, e, s in zip(names, encodings, sizes, strict=True)
        )
        if len({c.name for c in columns}) != len(columns):
            raise ValueError("columns of one name")
        raw_name, raw_bytes = _file(entry["raw_data"], "raw_data")
        if raw_bytes > MAX_SHARD_BYTES:
            raise ValueError(
                f"{raw_name} has {raw_bytes} bytes, an MDS shard {MAX_SHARD_BYTES} at most: its 32-bit offsets have "
                "wrapped; write the dataset again with a smaller size_limit"
            )
        samples = _count(entry["samples"], "samples")
        shard = MdsShard(samples=samples, columns=columns, raw_name=raw_name, raw_bytes=raw_bytes)
        if entry.get("zip_data") is None:
            return shard
        zip_name, zip_bytes = _file(entry["zip_data"], "zip_data")
        compression = _text(entry["compression"]).partition(":")[0]
        if compression not in LEVELS:
            raise ValueError(f"compression {compression!r}; tokenyard reads {', '.join(LEVELS)}")
    except (KeyError, TypeError, ValueError) as e:
        problems.append(f"{where}: " + (f"no {e}" if isinstance(e, KeyError) else str(e)))
        return None
    return replace(shard, zip_name=zip_name, zip_bytes=zip_bytes, compression=compression)


def _file(entry: Any, key: str) -> tuple[str, int]:
    name = entry["basename"]
    check_name(name)
    return name, _count(entry["bytes"], f"{key}.bytes")


def _count(value: Any, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{key} is {value!r}, expected a whole number from 0 on")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"found {value!r}, expected text")
    return value
