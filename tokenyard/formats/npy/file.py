"""What a .npy file says of itself: shape, dtype and where its data begin, checked against its size.

Layout: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Nothing is unpickled, and nothing but
the header is read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.npy.header import MAGIC, parse_header
from tokenyard.storage import Folder

#: More than any header that is read.
_HEAD_BYTES = 1 << 14


def read_file_header(folder: Folder, name: str, raw: np.dtype[Any] | None = None) -> dict[str, Any]:
    """``shape`` (one or two numbers), ``dtype``, ``fortran_order`` and ``data_start``, as JSON values.

    ``raw`` is the dtype of a file without a header. Raises DataError.
    """
    where, size = str(folder.at(name)), folder.size(name)
    head = folder.read(name, _HEAD_BYTES)
    if head.startswith(MAGIC):
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
    try:
        header = parse_header(head)
    except ValueError as e:
        raise DataError(f"{where}: unreadable .npy header ({e}); write the array again with np.save") from None
    if header.dtype.hasobject:
        raise DataError(
            f"{where}: an array of Python objects (pickled); tokenyard never unpickles, save integers instead"
        )
    return _layout(where, list(header.shape), header.dtype, header.fortran, header.size, size)


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
