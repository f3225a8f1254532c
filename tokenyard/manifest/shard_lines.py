"""The shards of a manifest that lie there line by line, as ``Manifest.to_json`` writes them, told one at a time.

A corpus of 100,000 shards opens in the time that checking the lines takes, and costs the memory of the file: a shard
becomes a ShardInfo when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from pydantic_core import from_json

from tokenyard.manifest.entries import ShardInfo, check_shard, shard_of
from tokenyard.rows import Offsets

_BEGIN, _END = b'\n  "shards": [\n', b"\n  ]\n}\n"


class ShardLines(Sequence[ShardInfo]):
    """See the module. ``num_rows``, ``num_tokens``, ``num_bytes``: int64[shards]. Raises ValueError for other lines.

    ``text`` is the manifest, ``begin`` and ``end`` where the lines lie in it.
    """

    def __init__(self, text: bytes, begin: int, end: int) -> None:
        self._text = text
        breaks = begin + np.flatnonzero(np.frombuffer(text, np.uint8, end - begin, begin) == ord("\n"))
        self._begins: Offsets = np.concatenate([[begin], breaks + 1])
        # A comma ends every line but the last.
        self._ends: Offsets = np.concatenate([breaks - 1, [end]])
        if any(text[at] != ord(",") for at in self._ends[:-1].tolist()):
            raise ValueError("not a shard a line")
        counts = [_counts(text[a:b]) for a, b in zip(self._begins.tolist(), self._ends.tolist(), strict=True)]
        self.num_rows: Offsets
        self.num_tokens: Offsets
        self.num_bytes: Offsets
        self.num_rows, self.num_tokens, self.num_bytes = np.array(counts, np.int64).T

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, i: int) -> ShardInfo: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[ShardInfo, ...]: ...
    def __getitem__(self, i: int | slice) -> ShardInfo | tuple[ShardInfo, ...]:
        if isinstance(i, slice):
            return tuple(self[k] for k in range(len(self))[i])
        i = range(len(self))[i]
        return shard_of(_data(self._text[self._begins[i] : self._ends[i]]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(a == b for a, b in zip(self, other, strict=True))


def split_shards(text: bytes) -> tuple[Any, ShardLines] | None:
    """A manifest without its shards, and these; None unless they lie line by line, undamaged."""
    begin = text.find(_BEGIN) + len(_BEGIN)
    if begin < len(_BEGIN) or not text.endswith(_END):
        return None
    try:
        return json.loads(text[:begin] + b"]}"), ShardLines(text, begin, len(text) - len(_END))
    except (ValueError, RecursionError):
        return None


def _data(line: bytes) -> Any:
    return from_json(line, cache_strings="keys")


def _counts(line: bytes) -> tuple[int, int, int]:
    data = _data(line)
    try:
        check_shard(data)
    except (KeyError, TypeError) as e:
        raise ValueError(f"not a shard: {e}") from None
    return data["rows"], data["tokens"], sum(file[1] for file in data["files"])
