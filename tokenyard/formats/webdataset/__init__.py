"""WebDataset: plain tars, one member a field, that webdataset, tar and every other tool open as they are.

Ours: ``<key>.tokens.npy``; a field's numbers are ``<key>.<field>.npy`` (an array, or without dimensions for a single
number), text ``.txt``, bytes ``.bin``; a null value has no member. Keys are the digits of the shard's name and the row
in it, so they are unique in the corpus and sort as the rows. With ``compression: gz`` a shard is one gzip stream.

Other people's tars (also ``.tar.gz``): the tokens are the members named by the option ``tokens``, else ``tokens.npy``,
``input_ids.npy``, ``npy``, the same as ``.bin`` (with ``token_dtype``) or ``.json``, else the only ``<name>.npy``.
Every other kind of member among the first samples is a field; ``fields`` names those to keep, which may then be
missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tokenyard.errors import ConfigError, DataError
from tokenyard.formats.base import (
    Discovered,
    Format,
    FormatOptions,
    ReadOptions,
    ShardReader,
    ShardSource,
    WrittenShard,
    options_of,
)
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.blocks import cut_batches
from tokenyard.formats.shared.compression import check_level, decompress, gunzip, gunzip_head, gzip_packer
from tokenyard.formats.shared.promises import promised_size, promised_text
from tokenyard.formats.shared.runs_reader import RunsReader, ShardBytes
from tokenyard.formats.webdataset import samples as tar_samples
from tokenyard.formats.webdataset import scan as tar_scan
from tokenyard.formats.webdataset import selection as tar_select
from tokenyard.formats.webdataset import tar
from tokenyard.formats.webdataset.encoding import TarEncoder, first_key
from tokenyard.formats.webdataset.samples import TarSelection
from tokenyard.formats.webdataset.selection import Head
from tokenyard.manifest import FileInfo, ShardInfo
from tokenyard.rows import Column, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder, RawFile

_RAW, _GZIPPED = (".tar",), (".tar.gz", ".tgz")
_OTHERS = (".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst", ".tar.lz4", ".tar.br")
#: What other people's compressed tars may grow to in memory.
_MAX_DECODED = 1 << 32
#: How many of other people's tars are looked at to see what samples hold, and how far.
_HEADS, _HEAD_MEMBERS, _HEAD_BYTES = 16, 1024, 1 << 22


class WebDatasetOptions(FormatOptions):
    """Options of the WebDataset writer."""

    compression: Literal["none", "gz"] = Field(
        default="none",
        description="How tars are compressed. Raw ones are read at memory speed; gz ones take about half the space.",
    )
    compression_level: int | None = Field(default=None, description="Its level, 0 to 9; 1 when not given.")

    def model_post_init(self, _: Any) -> None:
        """The level is one that the compression has."""
        check_level(self.compression, self.compression_level)


class WebDataset(Format):
    """See the module."""

    name = "webdataset"
    suffix = ".tar"
    summary = "plain tars with a file a field; read by webdataset, and by anything that unpacks"
    Options = WebDatasetOptions

    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        """One tar."""
        chosen = options_of(self.name, WebDatasetOptions, options)
        encoder = TarEncoder(schema, stem, sum(len(b) for b in batches))
        if chosen.compression == "none":
            with folder.publish(stem + ".tar") as file:
                for piece in cut_batches(batches):
                    file.write(encoder.encode(piece))
                file.write(tar.END)
            return WrittenShard(files=(file.info,), index=ShardIndex(arrays=encoder.index()))
        packer = gzip_packer(chosen.compression_level)
        with folder.publish(stem + ".tar.gz") as file:
            for piece in cut_batches(batches):
                file.write(packer.compress(encoder.encode(piece)))
            file.write(packer.compress(tar.END) + packer.flush())
        meta = {"compression": "gz", "raw_bytes": encoder.num_bytes + len(tar.END)}
        return WrittenShard(files=(file.info,), index=ShardIndex(arrays=encoder.index()), meta=meta)

    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        """Maps nothing yet."""
        file, where = shard.files[0], str(folder.at(shard.name))
        if shard.meta.get("compression") or "json_bytes" in index.meta:
            if shard.meta.get("compression"):
                promised_text(shard.meta, "compression", ["gz"], where)
                promised_size({**shard.meta, **index.meta}, "raw_bytes", _MAX_DECODED, where)
            if "json_bytes" in index.meta:
                tar_scan.check_json(index, where)
            decode = partial(_load, folder, file, {**shard.meta, **index.meta}, index)
            return _Reader(where, index, schema, packed=folder.raw(file.name, file.bytes), decode=decode)
        raw = folder.raw(file.name, file.bytes)
        check = None if index.meta else partial(_check_raw, PurePosixPath(file.name).name, index.num_rows)
        return _Reader(where, index, schema, raw=raw, check=check, check_bytes=tar.BLOCK if check else 0)

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        """Any tars; each is a shard. What samples hold is taken from the first ones of some shards."""
        mine = [n for n in names if n.endswith((*_RAW, *_GZIPPED))]
        if others := [n for n in names if n.endswith(_OTHERS)]:
            raise DataError(
                f"{folder.at(others[0])}: tars are read raw or gzipped, not {PurePosixPath(others[0]).suffix}; "
                "decompress it first"
            )
        if not mine:
            return None
        if options.split is not None:
            raise ConfigError(f"{folder.path}: 'split' cuts one long array, but a tar's sample is a row; leave it out")
        heads = [_head(folder, mine[i]) for i in np.unique(np.linspace(0, len(mine) - 1, _HEADS).astype(int)).tolist()]
        heads = [h for h in heads if h.samples.samples]
        if not heads:
            raise DataError(f"{folder.path}: no samples in {', '.join(mine[:_HEADS])}")
        selection = tar_select.select(heads, options)
        dtype = tar_scan.token_dtype_of(heads, selection.tokens, options.token_dtype)
        meta = {
            "tokens": selection.tokens,
            "fields": {n: list(f) for n, f in selection.fields.items()},
            "chosen": selection.chosen,
            "token_dtype": options.token_dtype,
        }
        shards = tuple(
            ShardSource(files=(FileInfo(name=n, bytes=folder.size(n)),), meta={**meta, "compression": _compression(n)})
            for n in mine
        )
        fields = {n: FieldType.parse(type) for n, (_, type) in selection.fields.items()}
        return Discovered(schema=Schema(token_dtype=dtype, fields=fields), shards=shards)

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        """Where each member's items lie."""
        file, meta = shard.files[0], shard.meta
        buffer = _read(folder, file, meta["compression"], None)
        fields = {n: (extension, type) for n, (extension, type) in meta["fields"].items()}
        selection = TarSelection(tokens=meta["tokens"], fields=fields, chosen=meta["chosen"])
        index = tar_scan.scan(buffer, selection, meta["token_dtype"], schema, str(folder.at(file.name)))
        return ShardIndex(arrays=index.arrays, meta={**index.meta, "raw_bytes": len(buffer)})


FORMAT = WebDataset()


class _Reader(RunsReader):
    def column(self, shard: ShardBytes, name: str, type: FieldType, start: int, stop: int) -> Column:
        """Numbers that are written as text are read as such."""
        if name not in self.index.meta.get("ascii", ()):
            return super().column(shard, name, type, start, stop)
        offsets = self.index.arrays[f"field:{name}:offsets"][start : stop + 1]
        text = self.items(shard, name, start, stop)
        values = tar_select.ascii_integers(text, offsets - offsets[0], f"{self.where}: field {name!r}", start)
        return Column(type=type, values=values, valid=self.valid(name, start, stop))


def _head(folder: Folder, name: str) -> Head:
    """The bytes and the first samples of a tar."""
    where = str(folder.at(name))
    packed = folder.map(name)
    buffer = gunzip_head(packed, _HEAD_BYTES, where) if _compression(name) else packed
    try:
        found = tar.first_members(buffer, where, _HEAD_MEMBERS)
    except DataError:
        if buffer is packed or len(buffer) < _HEAD_BYTES:
            raise
        buffer = gunzip(packed, _MAX_DECODED, where)
        found = tar.first_members(buffer, where, _HEAD_MEMBERS)
    samples = tar_samples.group(found, where)
    if len(found) >= _HEAD_MEMBERS and len(samples.samples) > 1:
        samples.samples.pop()  # it may go on
    return Head(where=where, buffer=buffer, samples=samples)


def _compression(name: str) -> str | None:
    return "gz" if name.endswith(_GZIPPED) else None


def _check_raw(name: str, num_rows: int, raw: RawFile) -> None:
    _check_first_key(raw.read(0, min(tar.BLOCK, raw.num_bytes)), name, num_rows, str(raw.path))


def _check_first_key(head: Bytes, name: str, num_rows: int, where: str) -> None:
    """Refuse a tar that isn't the one that tokenyard wrote under this name: keys tell shard and row."""
    expected = first_key(name.removesuffix(".gz").removesuffix(".tar"), num_rows) + b"."
    found = head[: len(expected)].tobytes()
    if num_rows and found != expected:
        raise DataError(
            f"{where}: its first member's name begins with {found!r}, in this shard it is {expected!r}; the shard is "
            "another's, or damaged: restore it"
        )


def _load(folder: Folder, file: FileInfo, meta: Mapping[str, Any], index: ShardIndex) -> Bytes:
    buffer = _read(folder, file, meta.get("compression"), meta.get("raw_bytes"))
    if not index.meta:
        name = PurePosixPath(file.name).name
        _check_first_key(buffer[: tar.BLOCK], name, index.num_rows, str(folder.at(file.name)))
    return tar_scan.decode_json(buffer, index, str(folder.at(file.name))) if "json_bytes" in meta else buffer


def _read(folder: Folder, file: FileInfo, compression: str | None, raw_bytes: int | None) -> Bytes:
    where = str(folder.at(file.name))
    if compression is None:
        return folder.map(file.name, file.bytes)
    buffer = folder.raw(file.name, file.bytes).read(0, file.bytes)
    if raw_bytes is None:
        return gunzip(buffer, _MAX_DECODED, where)
    return decompress(buffer, compression, raw_bytes, where)
