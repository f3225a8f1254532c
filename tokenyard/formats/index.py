"""The row index of one shard: a few named arrays of whole numbers, kept small.

``offsets`` (int64[rows + 1], cumulative tokens) is always there; formats add what they need, such as ``starts``, the
byte where each row's tokens begin. An array that grows evenly is kept as two numbers, so a shard of packed rows has an
index of a few hundred bytes, and 8 more for each 64 KiB of its files, for their checksums. On disk: the line
``TYINDEX1``, a line of JSON, then the other arrays as little-endian u64. Blanks end the JSON, so that the arrays begin
at a multiple of 8: numpy searches one that doesn't only in a copy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import DataError
from tokenyard.manifest import FileInfo
from tokenyard.rows import Offsets

_MAGIC = b"TYINDEX1\n"
#: Bytes of an index within which its JSON ends.
_MAX_HEAD = 1 << 24
#: Arrays of checksums (``storage/cells.py``), with the number of the file in the shard behind it.
_CELLS = "xxh3:"


def most_even(num_bytes: int) -> int:
    """The numbers that the index of a shard of ``num_bytes`` may hold as two: more than its rows are, all arrays."""
    return (1 << 22) + 1024 * num_bytes


@dataclass(frozen=True, kw_only=True)
class ShardIndex:
    """``arrays`` of int64 by name, and ``meta``: JSON values that the format needs to read the shard."""

    arrays: Mapping[str, Offsets]
    meta: Mapping[str, Any] = field(default_factory=dict)
    #: Whether arrays that don't own their data are views of a mapped file.
    mapped: bool = False

    @property
    def offsets(self) -> Offsets:
        """int64[rows + 1]: cumulative tokens."""
        return self.arrays["offsets"]

    @property
    def num_rows(self) -> int:
        """Rows in the shard."""
        return len(self.offsets) - 1

    @property
    def num_tokens(self) -> int:
        """Tokens in the shard."""
        return int(self.offsets[-1])

    def with_cells(self, files: Sequence[FileInfo]) -> ShardIndex:
        """The same index, with the checksums of the cells of the shard's files, as far as they are known."""
        cells = {f"{_CELLS}{i}": file.cells for i, file in enumerate(files) if file.cells is not None}
        return replace(self, arrays={**self.arrays, **cells})

    def cells(self, file: int) -> Offsets | None:
        """int64[cells]: the checksums of the cells of one of the shard's files, if the writer has kept them."""
        return self.arrays.get(f"{_CELLS}{file}")

    @property
    def memory_bytes(self) -> int:
        """What it costs: all arrays, but for those that are views of a mapped file."""
        return sum(a.nbytes for a in self.arrays.values() if a.flags.owndata or not self.mapped)

    def to_bytes(self, max_even: int | None = None) -> bytes:
        """The index as it lies on disk, with at most ``max_even`` numbers that only two stand for."""
        head: dict[str, Any] = {}
        body = []
        for name in sorted(self.arrays):
            array = np.asarray(self.arrays[name], np.int64)
            fits = max_even is None or len(array) <= max_even
            if len(array) and fits and (step := _even_step(array)) is not None:
                max_even = None if max_even is None else max_even - len(array)
                head[name] = {"count": len(array), "first": int(array[0]), "step": step}
            else:
                head[name] = {"count": len(array)}
                body.append(array.astype("<u8").tobytes())
        line = json.dumps({"arrays": head, "meta": dict(self.meta)}, sort_keys=True).encode()
        blanks = b" " * (-(len(_MAGIC) + len(line) + 1) % 8)
        return _MAGIC + line + blanks + b"\n" + b"".join(body)

    @classmethod
    def from_bytes(cls, data: bytes | NDArray[np.uint8], where: str, max_even: int | None = None) -> ShardIndex:
        """The inverse, also of a mapped file, whose arrays then stay there.

        Raises DataError that names ``where`` when it is cut, damaged, not increasing, or would make more than
        ``max_even`` numbers out of nothing.
        """
        mapped = isinstance(data, np.ndarray)
        try:
            begin = _head(data)
            if not begin.startswith(_MAGIC):
                raise ValueError("it does not begin with TYINDEX1")
            end = begin.index(b"\n", len(_MAGIC))
            head = json.loads(begin[len(_MAGIC) : end])
            arrays, meta = _read_arrays(head["arrays"], data, end + 1, max_even), head["meta"]
            offsets = arrays["offsets"]
            if not len(offsets) or offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
                raise ValueError("row offsets do not increase from 0")
            if not isinstance(meta, dict):
                raise ValueError(f"meta is {meta!r:.60}")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError) as e:
            raise DataError(f"{where}: damaged row index ({e}); rebuild it with 'tokenyard index'") from None
        return cls(arrays=arrays, meta=meta, mapped=mapped)


def _head(data: bytes | NDArray[np.uint8]) -> bytes:
    """The first bytes, up to the end of the JSON, or as many as it may have."""
    size = 1 << 12
    while b"\n" not in (head := bytes(data[:size]))[len(_MAGIC) :] and size < min(len(data), _MAX_HEAD):
        size *= 4
    return head


def _even_step(array: Offsets) -> int | None:
    """The distance of the numbers, when it is the same for all of them."""
    if len(array) == 1:
        return 0
    first, second, last = int(array[0]), int(array[1]), int(array[-1])
    step = second - first
    # Differences of 64 bits may wrap around; the last number shows it.
    if abs(step) >= 2**63 or first + step * (len(array) - 1) != last or (np.diff(array) != step).any():
        return None
    return step


def _read_arrays(
    entries: Mapping[str, Any], data: bytes | NDArray[np.uint8], position: int, max_even: int | None
) -> dict[str, Offsets]:
    arrays: dict[str, Offsets] = {}
    for name, entry in entries.items():
        count = int(entry["count"])
        if count < 0:
            raise ValueError(f"array {name!r} of {count} numbers")
        if "first" in entry:
            first, step = int(entry["first"]), int(entry["step"])
            if not -(2**63) <= first + step * max(0, count - 1) < 2**63:
                raise ValueError(f"array {name!r} goes past 64 bits")
            if max_even is not None and (max_even := max_even - count) < 0:
                raise ValueError(f"array {name!r} of {count} numbers, more rows than a shard of its size has")
            arrays[name] = first + step * np.arange(count, dtype=np.int64)
            continue
        if position + 8 * count > len(data):
            raise ValueError(f"array {name!r} of {count} numbers goes past the end")
        array = np.frombuffer(data, "<i8", count, position)
        arrays[name] = array if array.flags.aligned else array.copy()  # older indexes have no blanks
        position += 8 * count
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes too many")
    return arrays
