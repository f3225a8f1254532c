"""The row index of other people's tars: where the items of every sample's members lie, each checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.npy import header as npy_header
from tokenyard.formats.npy.header import NpyError
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.promises import promised_array
from tokenyard.formats.shared.runs_reader import field_arrays
from tokenyard.formats.webdataset.samples import Sample, TarSelection, check, group
from tokenyard.formats.webdataset.selection import Head, is_integer_text, json_tokens
from tokenyard.formats.webdataset.tar import Member, members
from tokenyard.rows import Offsets, offsets_of
from tokenyard.schema import FieldType, Schema

#: The dtype of ids that come as JSON.
JSON_DTYPE = "<u4"


def scan(buffer: Bytes, selection: TarSelection, token_dtype: str | None, schema: Schema, where: str) -> ShardIndex:
    """The index of one shard. Raises DataError that names the sample and the member."""
    samples = group(members(buffer, where), where)
    check(samples, selection, where)
    arrays: dict[str, Offsets] = {}
    meta: dict[str, Any] = {"dtypes": {}, "ascii": []}
    tokens = [s.members[selection.tokens] for s in samples.samples]
    kind = selection.tokens.split(".")[-1]
    if kind == "json":
        starts, lengths, dtype = _json(buffer, samples.samples, selection, where)
        meta["json_bytes"] = int(lengths.sum()) * dtype.itemsize
        arrays["json:starts"] = np.array([m.start for m in tokens], np.int64)
        arrays["json:sizes"] = np.array([m.size for m in tokens], np.int64)
    elif kind == "bin":
        starts, lengths, dtype = _bare(tokens, np.dtype(token_dtype or "u1"), where)
    else:
        starts, lengths, dtype = _arrays(buffer, tokens, 1, where)
    check_integers(dtype, where)
    if not np.can_cast(dtype, np.dtype(schema.token_dtype), "safe"):
        raise DataError(
            f"{where}: its tokens are {dtype.name}, other shards' {schema.token_dtype}; a corpus has one dtype, "
            "write the tars with the same, or open them apart"
        )
    meta["dtypes"]["tokens"] = dtype.str
    arrays |= {"starts": starts, "offsets": offsets_of(lengths)}
    for name, (extension, text) in selection.fields.items():
        found = [s.members.get(extension) for s in samples.samples]
        arrays |= _field(buffer, name, extension, FieldType.parse(text), found, meta, where)
    return ShardIndex(arrays=arrays, meta=meta)


def token_dtype_of(heads: Sequence[Head], extension: str, declared: str | None) -> str:
    """The name of the dtype that holds the first tokens of these shards. Raises DataError when there is none."""
    kind = extension.split(".")[-1]
    if kind != "npy":
        return np.dtype(JSON_DTYPE if kind == "json" else declared).name
    dtypes = []
    for head in heads:
        member = head.samples.extensions().get(extension)
        if member is not None:
            dtypes.append(_arrays(head.buffer, [member], 1, head.where)[2])
            check_integers(dtypes[-1], head.where)
    common = np.result_type(*dtypes)
    if common.kind == "f":  # int64 and uint64 together
        raise DataError(
            f"{heads[0].where}: tars of mixed token dtypes that no integer type holds together; open them apart"
        )
    return common.name


def check_integers(dtype: np.dtype[Any], where: str) -> None:
    """Raise DataError unless tokens of this dtype are ids."""
    if dtype.kind not in "iu":
        raise DataError(f"{where}: its tokens are {dtype}, but ids are integers; name other members with tokens=...")


def check_json(index: ShardIndex, where: str) -> None:
    """Raise DataError unless an index says where the JSON members lie, and how many bytes their tokens take."""
    starts = promised_array(index, "json:starts", index.num_rows, where)
    sizes = promised_array(index, "json:sizes", index.num_rows, where)
    if (starts < 0).any() or (sizes < 0).any():
        raise DataError(f"{where}: its row index has JSON members at places below 0; rebuild it")
    expected = index.num_tokens * np.dtype(JSON_DTYPE).itemsize
    if index.meta["json_bytes"] != expected:
        raise DataError(
            f"{where}: its row index says {index.meta['json_bytes']!r:.60} bytes of tokens, they are {expected}; "
            "rebuild it"
        )


def decode_json(buffer: Bytes, index: ShardIndex, where: str) -> Bytes:
    """The tar's bytes, and behind them all tokens of its JSON members. Raises DataError for others than are indexed."""
    if index.num_tokens > len(buffer):
        raise DataError(
            f"{where}: its row index says {index.num_tokens} tokens, more than its {len(buffer)} bytes can spell; the "
            "tar was changed, restore it or index it again"
        )
    out = np.empty(len(buffer) + int(index.meta["json_bytes"]), np.uint8)
    out[: len(buffer)] = buffer
    position = len(buffer)
    sizes = index.arrays["json:sizes"].tolist()
    lengths = np.diff(index.offsets).tolist()
    for row, (start, size) in enumerate(zip(index.arrays["json:starts"].tolist(), sizes, strict=True)):
        try:
            found = json_tokens(buffer[start : start + size].tobytes(), only=False)
            if len(found) != lengths[row]:
                raise ValueError(f"{len(found)} tokens, its index says {lengths[row]}")
            ids = np.array(found, JSON_DTYPE).view(np.uint8)
        except (ValueError, OverflowError) as e:
            raise DataError(f"{where}, row {row}: {e}; the tar was changed, restore it or index it again") from None
        out[position : position + len(ids)] = ids
        position += len(ids)
    return out


def _json(
    buffer: Bytes, samples: list[Sample], selection: TarSelection, where: str
) -> tuple[Offsets, Offsets, np.dtype[Any]]:
    dtype = np.dtype(JSON_DTYPE)
    lengths = np.zeros(len(samples), np.int64)
    for row, sample in enumerate(samples):
        member = sample.members[selection.tokens]
        data = buffer[member.start : member.start + member.size].tobytes()
        try:
            ids = json_tokens(data, only=not selection.chosen)
            if ids and not 0 <= min(ids) <= max(ids) < 2**32:
                raise ValueError("an id outside 0 .. 4294967295")
        except ValueError as e:
            raise DataError(f"{where}: {member.name!r} (row {row}): {e}") from None
        lengths[row] = len(ids)
    return len(buffer) + (np.cumsum(lengths) - lengths) * dtype.itemsize, lengths, dtype


def _bare(found: list[Member], dtype: np.dtype[Any], where: str) -> tuple[Offsets, Offsets, np.dtype[Any]]:
    starts = np.array([m.start for m in found], np.int64)
    lengths, rest = np.divmod(np.array([m.size for m in found], np.int64), dtype.itemsize)
    if rest.any():
        row = int(np.argmax(rest != 0))
        raise DataError(
            f"{where}: {found[row].name!r} (row {row}): {found[row].size} bytes, no whole number of {dtype.name}; "
            "token_dtype is another"
        )
    return starts, lengths, dtype


def _arrays(buffer: Bytes, found: list[Member], dimensions: int, where: str) -> tuple[Offsets, Offsets, np.dtype[Any]]:
    """.npy members: where their items begin, how many they are, and their common dtype."""
    starts = np.array([m.start for m in found], np.int64)
    sizes = np.array([m.size for m in found], np.int64)
    try:
        read = npy_header.read_members(buffer, starts, sizes)
        for i, header in enumerate(read.headers):
            if len(header.shape) != dimensions:
                why = f"an array of shape {header.shape}, expected {dimensions} dimension; write it flat"
            elif header.dtype != read.headers[0].dtype:
                why = f"{header.dtype}, other rows are {read.headers[0].dtype}; write the tar with one dtype"
            else:
                continue
            raise NpyError(int(np.argmax(read.which == i)), why)
    except NpyError as e:
        raise DataError(f"{where}: {found[e.row].name!r} (row {e.row}): {e}") from None
    lengths = np.array([h.shape[0] if h.shape else 1 for h in read.headers], np.int64)[read.which]
    return read.starts, lengths, read.headers[0].dtype if read.headers else np.dtype(np.uint16)


def _field(
    buffer: Bytes,
    name: str,
    extension: str,
    type: FieldType,
    found: list[Member | None],
    meta: dict[str, Any],
    where: str,
) -> Mapping[str, Offsets]:
    valid = np.array([m is not None for m in found], bool)
    there = [m for m in found if m is not None]
    lengths: Offsets
    if type.is_binary or is_integer_text(extension):
        starts = np.array([m.start for m in there], np.int64)
        lengths = np.array([m.size for m in there], np.int64)
        if not type.is_binary:
            meta["ascii"].append(name)
            meta["dtypes"][name] = "|u1"
    else:
        starts, lengths, dtype = _arrays(buffer, there, int(type.is_list), where)
        if there and dtype.newbyteorder("=") != type.dtype:
            raise DataError(
                f"{where}: members .{extension} are {dtype.name}, other shards' are {type.dtype.name}; a corpus "
                "has one schema, write the tars with the same dtype"
            )
        if there:
            meta["dtypes"][name] = dtype.str
    all_starts, all_lengths = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    all_starts[valid], all_lengths[valid] = starts, lengths
    has_lengths = type.has_offsets or name in meta["ascii"]
    return field_arrays(name, all_starts, all_lengths if has_lengths else None, valid)
