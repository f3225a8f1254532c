"""How a file is compressed: told by its first bytes, never by its name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, Protocol, cast

from tokenyard.converters.text.decompress import DecompressedStream
from tokenyard.converters.text.remote import open_object
from tokenyard.converters.text.split import Compression, Split
from tokenyard.errors import DataError, StorageError
from tokenyard.storage import is_url, open_regular, storage_error
from tokenyard.storage.temporary import temporary_file, temporary_folder

SUFFIXES: dict[str, Compression] = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bz2",
    ".xz": "xz",
}
HEAD_BYTES = 10
_COPY_BYTES = 1 << 20


class ByteStream(Protocol):
    """What readers need of a file: `read(size)` gives at most `size` bytes, b"" only at the end."""

    def read(self, size: int, /) -> bytes:
        """Return some of the next bytes."""


def detect_compression(head: bytes, path: str) -> Compression:
    """Tell the compression by a file's first `HEAD_BYTES` bytes; DataError for one that can't be read here."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):
        return "zstd"  # a frame, or a skippable frame in front of one
    if head[:3] == b"BZh" and head[4:10] in (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90"):
        return "bz2"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if head.startswith(b"\x04\x22\x4d\x18"):
        raise DataError(f"{path}: compressed with LZ4, which is not read here; use gzip, zstd, bzip2 or xz")
    return "none"


def file_head(path: str, num_bytes: int, etag: str | None) -> bytes:
    """Return the first `HEAD_BYTES` bytes of a file."""
    with open_raw(path, num_bytes, etag) as file:
        return file.read(min(HEAD_BYTES, num_bytes))


def open_raw(path: str, num_bytes: int | None = None, etag: str | None = None) -> BinaryIO:
    """Open a file's own bytes; StorageError names the path when it can't be read.

    num_bytes, etag: of an object, as it was when the plan was made; DataError from reading another one.
    """
    if is_url(path):
        return cast(BinaryIO, open_object(path, num_bytes, etag))
    try:
        return open_regular(path)
    except OSError as error:
        raise StorageError(f"{path}: can't be read: {error.strerror}") from error


@contextmanager
def open_stream(split: Split) -> Iterator[ByteStream]:
    """Open the decompressed bytes of a split's file, at `start` when it is plain.

    DataError when the file's size is no longer that of the plan.
    """
    with open_raw(split.path, split.file_bytes, split.etag) as file:
        check_size(split, file)
        if split.compression == "none":
            yield file
        else:
            with DecompressedStream(file, split.compression, split.path) as stream:
                yield cast(ByteStream, stream)


@contextmanager
def open_seekable(split: Split, num_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Open a split's file for random access; a compressed one goes through a temporary file first.

    DataError when that gives another number of bytes than `num_bytes`.
    """
    with open_stream(split) as stream:
        if split.compression == "none":
            yield cast(BinaryIO, stream)
            return
        with temporary_file() as copy:
            while data := stream.read(_COPY_BYTES):
                _write(copy, data, split)
                if num_bytes is not None and copy.tell() > num_bytes:
                    break
            if num_bytes is not None and copy.tell() != num_bytes:
                found = "more than that" if copy.tell() > num_bytes else f"{copy.tell()}"
                raise DataError(
                    f"{split.path}: {num_bytes} bytes were promised after decompression, {split.compression} gives "
                    f"{found}; restore it"
                )
            copy.seek(0)
            yield cast(BinaryIO, copy)


def _write(copy: IO[bytes], data: bytes, split: Split) -> None:
    try:
        copy.write(data)
        copy.flush()
    except OSError as error:
        what = f"can't write the decompressed bytes of {split.path} to a file of {temporary_folder()} (TMPDIR)"
        raise storage_error(error, what) from error


def check_size(split: Split, file: BinaryIO) -> None:
    """Refuse a file that has changed since the plan was made; an object is held to it by each read."""
    if is_url(split.path):
        return
    found = os.fstat(file.fileno()).st_size
    if found != split.file_bytes:
        raise DataError(f"{split.path}: has {found} bytes; the plan was made when it had {split.file_bytes}. Plan anew")
