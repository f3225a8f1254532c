"""Corpora that lie in memory in any way that a format could lay them out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard.corpus import Corpus
from tokenyard.formats.base import (
    Discovered,
    Format,
    FormatOptions,
    ReadOptions,
    ShardReader,
    ShardSource,
    WrittenShard,
)
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.manifest import FileInfo, Manifest, ShardInfo
from tokenyard.rows import Column, RowBatch, offsets_of
from tokenyard.schema import Schema
from tokenyard.storage import Folder


@dataclass(frozen=True, kw_only=True)
class MadeShard:
    """Rows, and how they lie: ``gaps`` bytes before each row, ``dtype`` as stored, blocks cut before rows ``cuts``."""

    rows: list[list[int]]
    masks: list[list[int]]
    dtype: str = "<u2"
    gaps: list[int] = field(default_factory=lambda: [0])
    cuts: tuple[int, ...] = ()
    mapped: bool = True


class MadeFormat(Format):
    """Gives the shards that it was made with."""

    name = "made"
    suffix = ".made"
    summary = "in memory"

    def __init__(self, shards: Sequence[MadeShard]) -> None:
        self.shards = shards
        self.num_reads = 0

    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        return MadeReader(self, self.shards[shard.meta["number"]], index, schema)

    # Shards are in memory: nothing is written, found or scanned.

    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        raise NotImplementedError

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        raise NotImplementedError

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        raise NotImplementedError


class MadeReader(ShardReader):
    def __init__(self, format: MadeFormat, shard: MadeShard, index: ShardIndex, schema: Schema) -> None:
        super().__init__("made", index, np.array([0, *shard.cuts, len(shard.rows)], np.int64))
        self._format = format
        self._shard = shard
        self._schema = schema

    def extents(self, block: int, field: str = "tokens") -> Extents:
        self._format.num_reads += 1
        shard = self._shard
        start, stop = self.block_rows[block : block + 2].tolist()
        rows = (shard.rows if field == "tokens" else shard.masks)[start:stop]
        dtype = np.dtype(shard.dtype if field == "tokens" else np.uint8)
        raw, starts = bytearray(), []
        for i, row in enumerate(rows):
            raw += b"\xa5" * shard.gaps[(start + i) % len(shard.gaps)]
            starts.append(len(raw))
            raw += np.array(row, dtype).tobytes()
        return Extents(
            buffer=np.frombuffer(bytes(raw) or b"\xa5", np.uint8),
            starts=np.array(starts, np.int64),
            lengths=np.array([len(r) for r in rows], np.int64),
            dtype=dtype,
            mapped=shard.mapped,
        )

    def rows(self, start: int, stop: int) -> RowBatch:
        rows, masks = self._shard.rows[start:stop], self._shard.masks[start:stop]
        tokens = np.array([t for r in rows for t in r], np.dtype(self._shard.dtype).newbyteorder("="))
        mask = Column(
            type=self._schema.fields["mask"],
            values=np.array([m for r in masks for m in r], np.uint8),
            offsets=offsets_of([len(r) for r in masks]),
        )
        return RowBatch(tokens=tokens, offsets=offsets_of([len(r) for r in rows]), fields={"mask": mask})


def make_corpus(folder: Path, shards: Sequence[MadeShard], token_dtype: str = "uint32", **more: Any) -> Corpus:
    """A corpus of these shards; the tokens' dtype must hold those of all of them."""
    (folder / "file").write_bytes(b"x")
    schema = Schema(token_dtype=token_dtype, fields={"mask": "uint8[]"})
    indexes = [ShardIndex(arrays={"offsets": offsets_of([len(r) for r in s.rows])}) for s in shards]
    infos = [
        ShardInfo(
            files=(FileInfo(name="file", bytes=1),), num_rows=i.num_rows, num_tokens=i.num_tokens, meta={"number": n}
        )
        for n, i in enumerate(indexes)
    ]
    manifest = Manifest(format="made", schema=schema, shards=tuple(infos))
    return Corpus(Folder(folder), manifest, MadeFormat(shards), indexes, **more)
