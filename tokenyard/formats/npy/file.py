"""What a .npy file says of itself: shape, dtype and where its data begin, checked against its size.

Layout: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Nothing is unpickled, and nothing but
the header is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.npy.header import MAGIC, parse_header
from tokenyard.formats.shared.promises import plain_dtype
from tokenyard.rows import Offsets
from tokenyard.storage import Folder

#: More than any header that is read.
HEAD_BYTES = 1 << 14
#: So many rows without a token are read; more are not, in a file of fewer bytes.
_FEW_ROWS = 1 << 20


def read_file_header(folder: Folder, name: str, raw: np.dtype[Any] | None = None) -> dict[str, Any]:
    """``shape`` (one or two numbers), ``dtype``, ``fortran_order`` and ``data_start``, as JSON values.

    ``raw`` is the dtype of a file without a header. Raises DataError.
    """
    where, size = str(folder.at(name)), folder.size(name)
    head = folder.read(name, HEAD_BYTES)
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


def check_header(meta: Mapping[str, Any], offsets: Offsets, tokens: np.dtype[Any], where: str) -> None:
    """Raise DataError unless ``meta`` is such a header of whole numbers, and its array has the rows of ``offsets``."""
    shape: Any = meta.get("shape")
    dtype, start = plain_dtype(meta.get("dtype"), where), meta.get("data_start")
    fits = (
        np.can_cast(dtype, tokens, "safe")
        and type(start) is int
        and 0 <= start < 2**31
        and isinstance(shape, list)
        and len(shape) in (1, 2)
        and all(type(n) is int for n in shape)
        and math.prod(shape) == int(offsets[-1])
        and type(meta.get("fortran_order")) is bool
    )
    if fits and meta["fortran_order"]:
        fits = len(shape) == 2 and np.array_equal(offsets, np.arange(len(offsets)) * shape[1])
    if not fits:
        raise DataError(
            f"{where}: its row index describes {dict(meta)!r:.200}, which is no array of its {int(offsets[-1])} tokens "
            f"of {tokens}; rebuild it with 'tokenyard index'"
        )


def _told(shape: list[int]) -> str:
    """A shape in words; numbers may have any number of digits."""
    return f"{tuple(shape)!r:.200}"


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
            f"{where}: an array of shape {_told(shape)}; tokens are one-dimensional (one row) or two-dimensional (rows)"
        )
    if max(shape) > max(size, _FEW_ROWS):
        raise DataError(
            f"{where}: {size} bytes, but its header promises the shape {_told(shape)}; the file was cut, or is damaged"
        )
    expected = start + math.prod(shape) * dtype.itemsize
    if size != expected:
        raise DataError(
            f"{where}: {size} bytes, but its header promises {expected}; the file was cut or never finished"
        )
    # A one-dimensional array lies the same way in both orders.
    return {"shape": shape, "dtype": dtype.str, "fortran_order": fortran and len(shape) == 2, "data_start": start}
