"""What a Parquet footer declares of its row groups, read without trusting it.

Structures of https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift. pyarrow shows the
same numbers, but its accessors for column chunks end the process on some damaged footers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tokenyard.errors import DataError
from tokenyard.formats.parquet.thrift import Thrift
from tokenyard.storage import ObjectFile, open_regular, storage_error

_MAGIC = b"PAR1"
#: A chunk that declares more than this, and far more than it takes in the file, is refused before it is decoded.
_SUSPECT_BYTES = 1 << 28
_SUSPECT_RATIO = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """One column of one row group: values (nulls and empty lists counted), and bytes, decompressed and in the file.

    ``start``: the byte at which its first page begins.
    """

    num_values: int
    decoded_bytes: int
    stored_bytes: int
    start: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RowGroup:
    """Rows, and the chunks by the dotted path of their column."""

    num_rows: int
    chunks: Mapping[str, Chunk]

    def of(self, column: str) -> list[Chunk]:
        """The chunks of a top-level column."""
        return [c for path, c in self.chunks.items() if path == column or path.startswith(column + ".")]


def read_footer(path: Path | str, file: BinaryIO | ObjectFile | None = None) -> list[RowGroup]:
    """The row groups that a file declares; ``file``: itself, where it is open already.

    Raises DataError when the file is no Parquet file, is cut or encrypted, or its counts contradict each other.
    """
    data, size = _footer_bytes(path, file)
    try:
        meta = Thrift(data).struct()
        groups = [_group(g, size) for g in meta.get(4, [])]
        num_rows = int(meta[3])
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as e:
        raise DataError(
            f"{path}: unreadable Parquet footer ({e.__class__.__name__}: {e}); restore the file, or write it again"
        ) from None
    total = sum(g.num_rows for g in groups)
    if num_rows != total or any(g.num_rows < 0 for g in groups):
        raise DataError(
            f"{path}: its footer says {num_rows} rows, its row groups {total}; the file is damaged or its writer "
            "broken, write it again (DuckDB: COPY (FROM 'in.parquet') TO 'out.parquet')"
        )
    return groups


def check_declared(path: Path | str, group: int, row_group: RowGroup, columns: list[str]) -> int:
    """The bytes that the columns of a row group take decoded, as far as the footer tells.

    Raises DataError for a column that would blow up from a few bytes to gigabytes.
    """
    sizes = 0
    for column in columns:
        for chunk in row_group.of(column):
            size = max(chunk.decoded_bytes, 4 * chunk.num_values)
            if size > _SUSPECT_BYTES and size > _SUSPECT_RATIO * max(chunk.stored_bytes, 1):
                raise DataError(
                    f"{path}: row group {group}, column {column!r}: {chunk.num_values} values of {size} bytes out of "
                    f"{chunk.stored_bytes} bytes in the file; refused, since decoding it could take all memory. If it "
                    "is right, write the file again in smaller row groups"
                )
            sizes += size
    return sizes


def _footer_bytes(path: Path | str, file: BinaryIO | ObjectFile | None) -> tuple[bytes, int]:
    try:
        with open_regular(path) if file is None else nullcontext(file) as f:
            size = f.seek(0, os.SEEK_END)
            f.seek(max(0, size - 8))
            tail = f.read(8)
            if tail[4:] == b"PARE":
                raise DataError(f"{path}: an encrypted Parquet file; decrypt it first")
            if len(tail) < 8 or tail[4:] != _MAGIC:
                raise DataError(f"{path}: does not end as a Parquet file does ({size} bytes); it was cut, or is none")
            length = int.from_bytes(tail[:4], "little")
            if length > size - 12:
                raise DataError(
                    f"{path}: its footer would have {length} bytes, the file has {size}; it was cut or damaged"
                )
            f.seek(size - 8 - length)
            return f.read(length), size
    except OSError as e:
        raise storage_error(e, f"can't read {path}") from e


def _group(data: Mapping[int, Any], file_size: int) -> RowGroup:
    chunks: dict[str, Chunk] = {}
    for column in data.get(1, []):
        meta = column[3]
        path = ".".join(p.decode("utf-8", "replace") for p in meta[3])
        start = meta[9] if meta.get(11, 0) <= 0 else min(meta[9], meta[11])
        chunk = Chunk(num_values=meta[5], decoded_bytes=meta[6], stored_bytes=min(meta[7], file_size), start=start)
        if min(chunk.num_values, chunk.decoded_bytes, chunk.stored_bytes, chunk.start) < 0:
            raise ValueError(f"column {path} has a size or a place below 0")
        chunks[path] = chunk
    return RowGroup(num_rows=int(data[3]), chunks=chunks)
