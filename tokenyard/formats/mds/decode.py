"""Finds the columns' values in an MDS shard, vectorized over its samples, and checks everything that it follows.

The layout is told in ``encoding``. Other people's arrays may also have no fixed dtype, which is then a byte before
the shape, or a fixed shape, which is then not in the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats import runs
from tokenyard.formats.mds.columns import MAX_SHARD_BYTES, ONE_DIMENSION, MdsColumn
from tokenyard.formats.runs import Bytes
from tokenyard.rows import Offsets

#: The byte that stands for a dtype in arrays without a fixed one.
_DTYPE_CODES = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
    64: "uint64", 65: "int64", 66: "float64",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Values:
    """Where the items of one value a row begin, how many they are, and their dtype (uint8 for text and bytes)."""

    starts: Offsets
    lengths: Offsets
    dtype: np.dtype[Any]


def table_bytes(samples: int) -> int:
    """The bytes of a shard that its count and the offsets of its samples take."""
    return 4 * (samples + 2)


def check_samples(buffer: Bytes, samples: int, where: str) -> None:
    """Raise DataError unless the shard's own count is the one that was promised."""
    found = int(buffer[:4].view("<u4")[0]) if len(buffer) >= 4 else 0
    if found != samples:
        raise DataError(
            f"{where}: index.json (or the manifest) promises {samples} samples, the shard holds {found}; "
            "restore the one that is wrong"
        )


def sample_bounds(buffer: Bytes, samples: int, where: str, num_bytes: int | None = None) -> Offsets:
    """int64[samples + 1]: where the samples of a shard begin. Raises DataError unless they are what was promised.

    ``num_bytes``: of the shard, where ``buffer`` is only its beginning.
    """
    check_samples(buffer, samples, where)
    table_end, num_bytes = table_bytes(samples), len(buffer) if num_bytes is None else num_bytes
    if num_bytes < table_end:
        raise DataError(f"{where}: {num_bytes} bytes can't hold the offsets of {samples} samples; the shard was cut")
    bounds = buffer[4:table_end].view("<u4").astype(np.int64)
    previous = np.concatenate([[table_end], bounds[:-1]])
    if (bounds < previous).any():
        row = int(np.argmax(bounds < previous))
        raise DataError(
            f"{where}: sample {row} begins at byte {bounds[row]}, but not before byte {previous[row]} it could; the "
            "32-bit offsets wrapped past 4 GiB, or are damaged: write the dataset again with a smaller size_limit"
        )
    if bounds[-1] != num_bytes:
        raise DataError(
            f"{where}: the samples end at byte {bounds[-1]}, the shard at byte {num_bytes}; it was cut, or its "
            "offsets wrapped past 4 GiB"
        )
    return bounds


def check_places(bounds: Offsets, starts: Offsets, num_bytes: Offsets, is_last: bool, where: str) -> None:
    """Raise DataError unless the ``num_bytes`` from ``starts`` on, those of the tokens, lie in their samples.

    ``is_last``: nothing comes behind them there.
    """
    ends = starts + num_bytes
    wrong = (starts < bounds[:-1]) | (ends != bounds[1:] if is_last else ends > bounds[1:])
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{where}: row {row} lies in bytes {bounds[row]} .. {bounds[row + 1]}, its row index says its tokens are "
            f"the {num_bytes[row]} bytes from {starts[row]} on; the shard is another's, or damaged: restore it"
        )


def column_runs(
    buffer: Bytes, bounds: Offsets, columns: Sequence[MdsColumn], where: str
) -> dict[str, tuple[Offsets, Offsets]]:
    """For each column where its bytes begin in every sample, and how many they are. Raises DataError."""
    varying = {c.name: at for at, c in enumerate(c for c in columns if c.size is None)}
    begins, ends = bounds[:-1], bounds[1:]
    fixed = sum(c.size or 0 for c in columns)
    short = ends - begins < 4 * len(varying)
    if not short.any() and len(begins) and varying:
        heads = runs.take_equal(buffer, begins, 4 * len(varying)).view("<u4").astype(np.int64)
    else:
        heads = np.zeros((len(begins), len(varying)), np.int64)
    wrong = short | (heads.sum(axis=1) + fixed + 4 * len(varying) != ends - begins)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{where}: sample {row} has {ends[row] - begins[row]} bytes, its columns take "
            f"{int(heads[row].sum()) + fixed + 4 * len(varying)}; the shard is damaged, or its columns are others"
        )
    found: dict[str, tuple[Offsets, Offsets]] = {}
    position = begins + 4 * len(varying)
    for column in columns:
        is_fixed = column.size is not None
        size = np.full(len(begins), column.size, np.int64) if is_fixed else heads[:, varying[column.name]]
        found[column.name] = (position, size)
        position = position + size
    return found


def values(buffer: Bytes, column: MdsColumn, starts: Offsets, sizes: Offsets, bare: str | None, where: str) -> Values:
    """The values of a column; ``bare`` is the dtype of ids kept as bytes. Raises DataError that names the row."""
    where = f"{where}: column {column.name!r}"
    if column.is_array:
        return _arrays(buffer, column, starts, sizes, where)
    dtype = column.dtype or np.dtype(bare or np.uint8)
    lengths, rest = np.divmod(sizes, dtype.itemsize)
    if rest.any():
        row = int(np.argmax(rest != 0))
        raise DataError(
            f"{where}, row {row}: {sizes[row]} bytes, no whole number of {dtype.name}; token_dtype is another"
        )
    return Values(starts=starts, lengths=lengths, dtype=dtype)


def _arrays(buffer: Bytes, column: MdsColumn, starts: Offsets, sizes: Offsets, where: str) -> Values:
    dtype, position = column.dtype, starts
    if dtype is None:
        dtype = _dtype_in_data(buffer, starts, sizes, where)
        position = position + 1
    if column.items is not None:
        counts = np.full(len(starts), column.items, np.int64)
    else:
        counts, width = _shapes(buffer, position, starts + sizes, where)
        position = position + width
    wrong = position + counts * dtype.itemsize != starts + sizes
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{where}, row {row}: {sizes[row]} bytes, but its header promises {counts[row]} items of {dtype.name}; "
            "the shard is damaged, or index.json names another encoding"
        )
    return Values(starts=position, lengths=counts, dtype=dtype)


def _dtype_in_data(buffer: Bytes, starts: Offsets, sizes: Offsets, where: str) -> np.dtype[Any]:
    codes = np.zeros(len(starts), np.uint8)
    codes[sizes > 0] = buffer[starts[sizes > 0]]
    first = int(codes[0]) if len(codes) else 65
    if first not in _DTYPE_CODES:
        raise DataError(f"{where}, row 0: the unknown dtype code {first}; the shard is damaged")
    if (codes != first).any():
        row = int(np.argmax(codes != first))
        other = _DTYPE_CODES.get(int(codes[row]), f"the unknown dtype code {codes[row]}")
        raise DataError(
            f"{where}, row {row}: {other}, the rows before it are {_DTYPE_CODES[first]}; a column has one dtype, write "
            "it as ndarray:<dtype>"
        )
    return np.dtype(_DTYPE_CODES[first]).newbyteorder("<")


def _shapes(buffer: Bytes, position: Offsets, ends: Offsets, where: str) -> tuple[Offsets, Offsets]:
    """Lengths from the headers of one-dimensional arrays, and the headers' sizes."""
    inside = position < ends
    first = np.where(inside, buffer[np.where(inside, position, 0)], 0) if len(position) else np.empty(0, np.uint8)
    dims, widths = first >> 2, 1 << (first & 3).astype(np.int64)
    wrong = ~inside | (dims != 1) | (position + 1 + widths > ends)
    if wrong.any():
        row = int(np.argmax(wrong))
        if not inside[row] or dims[row] == 1:
            raise DataError(f"{where}, row {row}: too few bytes for an array; the shard is damaged")
        raise DataError(f"{where}, row {row}: an array of shape {_shape(buffer, int(position[row]))}; {ONE_DIMENSION}")
    counts = np.empty(len(position), np.int64)
    for code in range(4):
        some = np.flatnonzero(first & 3 == code)
        values = runs.take_equal(buffer, position[some] + 1, 1 << code).view(f"<u{1 << code}").reshape(-1)
        if code == 3 and (values > MAX_SHARD_BYTES).any():
            raise DataError(f"{where}: an array of {values.max()} items, more than a shard holds; the shard is damaged")
        counts[some] = values.astype(np.int64)
    return counts, 1 + widths


def _shape(buffer: Bytes, position: int) -> str:
    dims, width = int(buffer[position]) >> 2, 1 << (int(buffer[position]) & 3)
    data = buffer[position + 1 : position + 1 + dims * width].tobytes()
    return f"({', '.join(str(int.from_bytes(data[i : i + width], 'little')) for i in range(0, len(data), width))})"
