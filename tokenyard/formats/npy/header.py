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
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from tokenyard.formats import runs
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.digits import decimal
from tokenyard.rows import Offsets

MAGIC = b"\x93NUMPY"
#: What ``write_header`` writes for members of tars, and for files.
HEADER_BYTES = 80
FILE_HEADER_BYTES = 128
#: The fewest items of a list whose header is not kept.
_SHORT = 1 << 13
_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)
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


def write_list_headers(dtype: np.dtype[Any], lengths: Offsets) -> Bytes:
    """uint8[n, HEADER_BYTES]: what ``write_header`` writes for each of these lengths, many at once."""
    lines = _short_list_headers(dtype)[np.minimum(lengths, _SHORT - 1)]
    long = np.flatnonzero(lengths >= _SHORT)
    if len(long):
        lines[long] = _make_list_headers(dtype, lengths[long])
    return lines


@lru_cache(16)
def _short_list_headers(dtype: np.dtype[Any]) -> Bytes:
    """The headers of lists of 0 items and more: most need only be looked up."""
    return _make_list_headers(dtype, np.arange(_SHORT))


def _make_list_headers(dtype: np.dtype[Any], lengths: Offsets) -> Bytes:
    lines = np.empty((len(lengths), HEADER_BYTES), np.uint8)
    widths = np.searchsorted(_POWERS, lengths, side="right") + 1
    for width in np.unique(widths).tolist():
        rows = np.flatnonzero(widths == width)
        line = write_header(dtype, (10 ** (width - 1),))  # any number of as many digits
        number = line.index(b"(") + 1
        lines[rows] = np.frombuffer(line, np.uint8)
        lines[rows, number : number + width] = decimal(lengths[rows], width)
    return lines


#: What numpy writes for arrays of numbers of up to two dimensions.
_COMMON = re.compile(
    rb"\{'descr': '([<>|](?:[iu][1248]|f[248]|b1))', 'fortran_order': False, "
    rb"'shape': \((?:(\d+),|(\d+), (\d+))?\), \} *\n?",
    re.DOTALL,
)
#: Python 3.11 raises SystemError, now and then, where several threads parse at once.
_TRIES = 10


@lru_cache(1 << 16)
def read_header(data: bytes) -> NpyHeader:
    """Read a whole header. Raises ValueError: damaged, or an array of Python objects."""
    header = parse_header(data)
    if header.dtype.hasobject:
        raise ValueError("an array of Python objects (pickled), which tokenyard never unpickles")
    return header


def parse_header(data: bytes) -> NpyHeader:
    """What the header says that these bytes begin with. Raises ValueError, whatever they are.

    Headers of arrays of numbers, as numpy writes them, are read here; numpy parses them as it does Python code.
    """
    if data[:8] == MAGIC + b"\x01\x00":
        size = 10 + int.from_bytes(data[8:10], "little")
        if len(data) >= size and (common := _COMMON.fullmatch(data, 10, size)):
            shape = tuple(int(length) for length in common.groups()[1:] if length is not None)
            return NpyHeader(size, np.dtype(common[1].decode()), shape, False)
    for _ in range(_TRIES - 1):
        with suppress(SystemError):
            return _parsed_by_numpy(io.BytesIO(data))
    return _parsed_by_numpy(io.BytesIO(data))


def _parsed_by_numpy(stream: IO[bytes]) -> NpyHeader:
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
    return NpyHeader(stream.tell(), dtype, tuple(shape), bool(fortran))


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
    promised = np.array([_file_bytes(h) for h in headers], np.int64)[which]
    _refuse(promised != sizes, lambda row: f"{sizes[row]} bytes, but its header promises {promised[row]}")
    return NpyMembers(headers=headers, which=which, starts=starts + lengths)


def _file_bytes(header: NpyHeader) -> int:
    """The size of the file with this header; one that no file has for a shape that none has."""
    size = header.size + math.prod(header.shape) * header.dtype.itemsize
    return size if min(header.shape, default=0) >= 0 and size < 2**63 else 2**63 - 1


def _refuse(wrong: NDArray[np.bool_], why: Callable[[int], str]) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise NpyError(row, why(row))
