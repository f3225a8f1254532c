"""What the pages of a column chunk say of themselves, held against its footer before anything is decoded.

pyarrow takes memory for as many values and bytes as a page's header names, which some damaged bits make billions. Only
headers are read, some tens of bytes a page.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from tokenyard.errors import DataError
from tokenyard.formats.parquet.footer import Chunk
from tokenyard.formats.parquet.thrift import Thrift
from tokenyard.storage import ObjectFile, open_regular, storage_error

#: Read at once; a header with statistics of long texts is read again, with more.
_HEAD_BYTES = 1 << 10
_MAX_HEAD_BYTES = 16 << 20
#: Fewer bytes than this are no matter, whatever the footer says.
_FEW_BYTES = 16 << 20


def check_pages(
    path: Path | str, group: int, column: str, chunk: Chunk, file: BinaryIO | ObjectFile | None = None
) -> None:
    """Raise DataError for a page of more values or bytes than its column chunk has, or than its own bytes can tell.

    ``file``: the file itself, where it is open already.
    """
    where = f"{path}: row group {group}, column {column!r}"
    try:
        with open_regular(path) if file is None else nullcontext(file) as f:
            at, end, values = chunk.start, f.seek(0, os.SEEK_END), 0
            while values < chunk.num_values and at < end:
                head, size = _header(f, at, where)
                num_values, unpacked, packed = _sizes(head, where, at)
                if 7 in head:  # a dictionary, of which each value takes one byte at least
                    too_many = num_values > unpacked
                else:
                    values += num_values
                    too_many = values > chunk.num_values
                if too_many or unpacked > max(chunk.decoded_bytes, _FEW_BYTES) or at + size + packed > end:
                    raise DataError(
                        f"{where}: the page at byte {at} would hold {num_values} values in {unpacked} bytes, packed in "
                        f"{packed}; its column has {chunk.num_values} values in {chunk.decoded_bytes} bytes. The file "
                        "is damaged, restore it"
                    )
                at += size + packed
    except OSError as e:
        raise storage_error(e, f"can't read {path}") from e


def _header(file: BinaryIO | ObjectFile, at: int, where: str) -> tuple[dict[int, Any], int]:
    """A page's header, and the bytes that it takes."""
    size = _HEAD_BYTES
    while True:
        file.seek(at)
        data = file.read(size)
        thrift = Thrift(data)
        try:
            return thrift.struct(), thrift.at
        except IndexError:
            if len(data) == size and size < _MAX_HEAD_BYTES:
                size *= 16
                continue
            why = "it is cut"
        except (ValueError, RecursionError) as e:
            why = str(e)
        raise DataError(f"{where}: no page begins at byte {at} ({why}); restore the file, or write it again")


def _sizes(head: dict[int, Any], where: str, at: int) -> tuple[int, int, int]:
    """Values, bytes decompressed, and bytes in the file."""
    kind = next((head[k] for k in (5, 7, 8) if isinstance(head.get(k), dict)), {1: 0})
    found = (kind.get(1), head.get(2), head.get(3))
    if not all(type(n) is int and n >= 0 for n in found):
        raise DataError(f"{where}: the page at byte {at} has no sizes; restore the file, or write it again")
    return found  # type: ignore[return-value]
