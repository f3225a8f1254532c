"""What a manifest says of one file and of one shard: the records, and their JSON, read and checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import DataError

#: Names that are plain at a glance; any other is looked at part by part.
_PLAIN = re.compile(r"\.?[\w-][\w.-]{,60}(?:/\.?[\w-][\w.-]{,60}){,9}", re.ASCII)
#: What file systems hold of a name, and of a path.
_MAX_NAME, _MAX_PATH = 255, 4095


@dataclass(frozen=True, kw_only=True)
class FileInfo:
    """One file of a corpus: name relative to its folder, size in bytes, ``blake3:<hex>`` checksum (None: not known).

    ``cells``: int64, the checksums of its cells, for a file that was just written; they are kept in the row index of
    its shard and nowhere else.
    """

    name: str
    bytes: int
    checksum: str | None = None
    cells: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ShardInfo:
    """One shard: its files (the tokens' own file first), rows and tokens, and what the format must remember of it.

    ``index`` is the file of the shard's row index under ``.tokenyard/``; None when it is kept elsewhere (other people's
    corpora).
    """

    files: tuple[FileInfo, ...]
    num_rows: int
    num_tokens: int
    index: FileInfo | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file that holds the tokens."""
        return self.files[0].name

    @property
    def num_bytes(self) -> int:
        """Bytes of all files of the shard, its index left out."""
        return sum(f.bytes for f in self.files)


def shard_to_dict(shard: ShardInfo) -> dict[str, Any]:
    """A shard as JSON values."""
    return {
        "rows": shard.num_rows,
        "tokens": shard.num_tokens,
        "files": [file_to_list(f) for f in shard.files],
        "index": file_to_list(shard.index) if shard.index else None,
        "meta": dict(shard.meta),
    }


def file_to_list(file: FileInfo) -> list[Any]:
    """A file as JSON values."""
    return [file.name, file.bytes, file.checksum]


def shard_of(data: Any) -> ShardInfo:
    """The inverse of ``shard_to_dict``. Raises KeyError, TypeError, ValueError as ``check_shard`` does."""
    check_shard(data)
    return ShardInfo(
        files=tuple(file_of(f) for f in data["files"]),
        num_rows=data["rows"],
        num_tokens=data["tokens"],
        index=file_of(data["index"]) if data["index"] else None,
        meta=data["meta"],
    )


def file_of(data: Any) -> FileInfo:
    """The inverse of ``file_to_list``. Raises TypeError, ValueError."""
    check_file(data)
    name, size, checksum = data
    return FileInfo(name=name, bytes=size, checksum=checksum)


def check_shard(data: Any) -> None:
    """Raise KeyError, TypeError or ValueError unless ``data`` are what ``shard_to_dict`` makes."""
    files = data["files"]
    for file in files:
        check_file(file)
    rows, tokens, meta = data["rows"], data["tokens"], data["meta"]
    if not files or not is_count(rows) or not is_count(tokens):
        raise ValueError(f"a shard needs files and counts from 0 on, found {rows!r:.60} rows, {tokens!r:.60} tokens")
    if not is_count(total := sum(file[1] for file in files)):
        raise ValueError(f"its files have {total} bytes together, more than 63 bits hold")
    if not isinstance(meta, dict):
        raise ValueError(f"meta: expected dict, found {meta!r:.60}")
    if index := data["index"]:
        check_file(index)
        if not index[0].startswith(".tokenyard/"):  # where it is rebuilt, and nothing of anybody else's lies
            raise ValueError(f"its index {index[0]!r:.200} is not under .tokenyard/")


def check_file(data: Any) -> None:
    """Raise TypeError or ValueError unless ``data`` are what ``file_to_list`` makes."""
    name, size, checksum = data
    if not (isinstance(name, str) and _PLAIN.fullmatch(name)):
        check_name(name)
    if not is_count(size):
        raise ValueError(f"size of {name!r} is {size!r:.60}")
    if checksum is not None and not isinstance(checksum, str):
        raise ValueError(f"checksum of {name!r} is {checksum!r:.60}")


def is_count(value: Any, least: int = 0) -> bool:
    """Whether a value is a whole number from ``least`` on that 63 bits hold."""
    return type(value) is int and least <= value < 2**63


def check_name(name: Any) -> None:
    """Raise DataError unless ``name`` is a plain relative path that stays inside its folder."""
    parts = name.split("/") if isinstance(name, str) else []
    if not parts or any(p in ("", ".", "..") for p in parts) or "\\" in name or "\0" in name:
        raise DataError(f"file name {name!r:.200} is not a plain relative path; it would lead outside the corpus")
    try:
        encoded = os.fsencode(name)
    except UnicodeEncodeError as e:
        raise DataError(f"file name {name!r:.200} can't be a file's ({e.reason})") from None
    if len(encoded) > _MAX_PATH or max(map(len, encoded.split(b"/"))) > _MAX_NAME:
        raise DataError(
            f"file name {name!r:.60} of {len(encoded)} bytes is longer than any file's: {_MAX_NAME} bytes a part, "
            f"{_MAX_PATH} in all"
        )
