"""What a .npy file says of itself: shape, dtype and where its data begin, checked against its size.

Layout: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Nothing is unpickled, and nothing but
the header is read.
"""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from tokenyard.errors import DataError
from tokenyard.storage import Folder

_MAGIC = b"\x93NUMPY"
#: As numpy itself: parsing a longer header could exhaust the parser, and arrays of numbers have short ones.
_MAX_HEADER = 10_000


def read_header(folder: Folder, name: str, raw: np.dtype[Any] | None = None) -> dict[str, Any]:
    """``shape`` (one or two numbers), ``dtype``, ``fortran_order`` and ``data_start``, as JSON values.

    ``raw`` is the dtype of a file without a header. Raises DataError.
    """
    where, size = str(folder.at(name)), folder.size(name)
    head = folder.read(name, _MAX_HEADER + 64)
    if head.startswith(_MAGIC):
        return _parsed(where, head, size)
    if size == 0 and raw is None:
        raise DataError(f"{where}: an empty file, without even a .npy header; it was never finished, write it again")
    if raw is None:
        raise DataError(
            f"{where}: no .npy header. If it holds bare token ids, as memmap-based trainers write them, name their "
            "dtype: token_dtype=uint16 (or uint32, int32 ...); np.save writes files with a header"
        )
    if size % raw.itemsize:
        raise DataError(
            f"{where}: {size} bytes are no whole number of {raw} ids; token_dtype is another, or the file was cut"
        )
    return _layout(where, [size // raw.itemsize], raw, False, 0, size)


def _parsed(where: str, head: bytes, size: int) -> dict[str, Any]:
    stream = io.BytesIO(head)
    try:
        version = npy_format.read_magic(stream)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of headers that Python 2 wrote, and reads them
            if version == (1, 0):
                shape, fortran, dtype = npy_format.read_array_header_1_0(stream, max_header_size=_MAX_HEADER)
            elif version in ((2, 0), (3, 0)):
                # Version 3 differs from 2 only in UTF-8 field names, which arrays of integers don't have.
                shape, fortran, dtype = npy_format.read_array_header_2_0(stream, max_header_size=_MAX_HEADER)
            else:
                raise ValueError(f"format version {version[0]}.{version[1]}")
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as e:
        said = str(e).splitlines()[0] if str(e) else e.__class__.__name__
        raise DataError(f"{where}: unreadable .npy header ({said}); write the array again with np.save") from None
    if dtype.hasobject:
        raise DataError(
            f"{where}: an array of Python objects (pickled); tokenyard never unpickles, save integers instead"
        )
    return _layout(where, list(shape), dtype, bool(fortran), stream.tell(), size)


def _layout(where: str, shape: list[int], dtype: np.dtype[Any], fortran: bool, start: int, size: int) -> dict[str, Any]:
    if dtype.kind not in "iufb" or dtype.subdtype is not None:
        raise DataError(f"{where}: holds {dtype}, but token ids are integers")
    if len(shape) not in (1, 2) or any(n < 0 for n in shape):
        raise DataError(
            f"{where}: an array of shape {tuple(shape)}; tokens are one-dimensional (one row) or two-dimensional (rows)"
        )
    expected = start + math.prod(shape) * dtype.itemsize
    if size != expected:
        raise DataError(
            f"{where}: {size} bytes, but its header promises {expected}; the file was cut or never finished"
        )
    # A one-dimensional array lies the same way in both orders.
    return {"shape": shape, "dtype": dtype.str, "fortran_order": fortran and len(shape) == 2, "data_start": start}
