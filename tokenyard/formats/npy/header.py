"""Headers of .npy files and of members of tars: written as numpy or shorter, read with no regard to who wrote them.

Layout: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. numpy pads headers to 128 bytes, and so
do we in files; version 1.0 asks for a multiple of 16 and np.load for nothing, so members, of which there is one a row,
have 80.
"""

from __future__ import annotations

import io
import math
import re
import tokenize
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from tokenyard.formats import runs
from tokenyard.formats.runs import Bytes
from tokenyard.rows import Offsets

MAGIC = b"\x93NUMPY"
#: What ``write_header`` writes for members of tars, and for files.
HEADER_BYTES = 80
FILE_HEADER_BYTES = 128
#: As numpy itself: parsing a longer header could exhaust the parser, and arrays of numbers have short ones.
_MAX_HEADER = 10_000


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a header says, and the bytes it takes."""

    size: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool


def write_header(dtype: np.dtype[Any], shape: tuple[int, ...], num_bytes: int = HEADER_BYTES) -> bytes:
    """A header of version 1.0 of ``num_bytes``, for one dimension or none."""
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    text = text.ljust(num_bytes - len(MAGIC) - 5) + b"\n"
    return MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text


#: What numpy writes for arrays of numbers of one dimension or none.
_COMMON = re.compile(
    rb"\{'descr': '([<>|][biuf][1248])', 'fortran_order': False, 'shape': \((?:(\d+),)?\), \} *\n?", re.DOTALL
)


@lru_cache(1 << 16)
def read_header(data: bytes) -> NpyHeader:
    """Read a whole header. Raises ValueError: damaged, or an array of Python objects."""
    if data[6:7] == b"\x01" and (common := _COMMON.fullmatch(data, 10)):
        length = common[2]
        return NpyHeader(len(data), np.dtype(common[1].decode()), () if length is None else (int(length),), False)
    stream = io.BytesIO(data)
    shape, fortran, dtype = parse_header(stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects (pickled), which tokenyard never unpickles")
    return NpyHeader(stream.tell(), dtype, shape, fortran)


def parse_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and dtype, as numpy reads them. Raises ValueError, whatever the bytes are."""
    try:
        version = npy_format.read_magic(stream)
        # Version 3 differs from 2 only in UTF-8 field names, which arrays of numbers don't have.
        readers = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
            (3, 0): npy_format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"format version {version[0]}.{version[1]}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of headers that Python 2 wrote, and reads them
            shape, fortran, dtype = readers[version](stream, max_header_size=_MAX_HEADER)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError) as e:
        raise ValueError(str(e).partition("\n")[0] or e.__class__.__name__) from None
    return tuple(shape), bool(fortran), dtype


@dataclass(frozen=True, kw_only=True)
class NpyMembers:
    """The headers of many .npy files: the different ones, and for each file which it has and where its items begin."""

    headers: list[NpyHeader]
    which: NDArray[np.int64]
    starts: NDArray[np.int64]


class NpyError(ValueError):
    """A header that can't be read; ``row`` is its place among those asked for."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def read_members(buffer: Bytes, starts: Offsets, sizes: Offsets) -> NpyMembers:
    """The headers of the .npy files of ``sizes`` bytes at ``starts``. Raises NpyError unless all data are there."""
    _refuse(sizes < 12, lambda row: f"{sizes[row]} bytes are no .npy file")
    heads = runs.take_equal(buffer, starts, 12)
    magic = np.frombuffer(MAGIC, np.uint8)
    _refuse((heads[:, : len(magic)] != magic).any(axis=1), lambda row: "it doesn't begin as a .npy file")
    version = heads[:, 6]
    _refuse(
        (version < 1) | (version > 3),
        lambda row: f"a .npy file of version {version[row]}, unknown to numpy",
    )
    lengths = np.where(
        version == 1, heads[:, 8:10].copy().view("<u2")[:, 0] + 10, heads[:, 8:].copy().view("<u4")[:, 0] + 12
    )
    _refuse(lengths > sizes, lambda row: f"{sizes[row]} bytes, but its header alone has {lengths[row]}")
    which = np.zeros(len(starts), np.int64)
    known: dict[bytes, int] = {}
    headers: list[NpyHeader] = []
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        texts = runs.take_equal(buffer, starts[rows], length).view(f"|V{length}").reshape(-1).tolist()
        for row, text in zip(rows.tolist(), texts, strict=True):
            if text not in known:
                known[text] = len(headers)
                try:
                    headers.append(read_header(text))
                except ValueError as e:
                    raise NpyError(row, str(e)) from None
            which[row] = known[text]
    promised = np.array([h.size + math.prod(h.shape) * h.dtype.itemsize for h in headers], np.int64)[which]
    _refuse(promised != sizes, lambda row: f"{sizes[row]} bytes, but its header promises {promised[row]}")
    return NpyMembers(headers=headers, which=which, starts=starts + lengths)


def _refuse(wrong: NDArray[np.bool_], why: Callable[[int], str]) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise NpyError(row, why(row))
