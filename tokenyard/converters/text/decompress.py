"""Decompressed bytes as a stream: bounded memory, every member and frame, no silent end.

The standard library's readers stop quietly at a damaged second bzip2 stream, and zstandard's at a cut frame.
Here whatever is not a whole number of members is an error.
"""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol

import zstandard

from tokenyard.errors import DataError

_CHUNK = 1 << 16
# Zstandard's object hands out all that its input gives. A bomb gives 128 KiB for 4 bytes, so it is fed little.
_ZSTD_CHUNK = 1 << 10
_PADDED = ("gzip", "xz")
_LIBRARY_ERRORS = (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class Member(Protocol):
    """One gzip member, zstd frame, bzip2 or xz stream being decompressed: the interface of bz2 and lzma."""

    @property
    def eof(self) -> bool:
        """Whether its end is reached."""

    @property
    def needs_input(self) -> bool:
        """Whether it has nothing more to give without input."""

    @property
    def unused_data(self) -> bytes:
        """What of the input lies behind its end."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Take input, give at most `max_length` bytes."""


class _GzipMember:
    def __init__(self) -> None:
        self._object = zlib.decompressobj(wbits=31)  # 31: the gzip wrapper, its checksum verified

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def needs_input(self) -> bool:
        return not self._object.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._object.decompress(self._object.unconsumed_tail + data, max(max_length, 0))


class _ZstdFrame:
    def __init__(self) -> None:
        self._object = zstandard.ZstdDecompressor().decompressobj()
        self._input = b""
        self._output = memoryview(b"")

    @property
    def eof(self) -> bool:
        return self._object.eof and not self._output

    @property
    def needs_input(self) -> bool:
        return not self._input and not self._output

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data + self._input

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        self._input += data
        while self._input and not self._output and not self._object.eof:
            fed, self._input = self._input[:_ZSTD_CHUNK], self._input[_ZSTD_CHUNK:]
            self._output = memoryview(self._object.decompress(fed))
        size = len(self._output) if max_length < 0 else max_length
        out, self._output = bytes(self._output[:size]), self._output[size:]
        return out


def _new_member(compression: str) -> Callable[[], Member]:
    members: dict[str, Callable[[], Member]] = {
        "gzip": _GzipMember,
        "zstd": _ZstdFrame,
        "bz2": bz2.BZ2Decompressor,
        "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    }
    return members[compression]


class DecompressedStream(io.RawIOBase):
    """All members of a compressed file, one after the other. `read(size)` gives up to `size` bytes, b"" at the end.

    Zero bytes between members are padding (gzip, xz). DataError, with the path and the position in the
    decompressed bytes, on anything else that is not a member, on a damaged one, and on one that is cut off.
    """

    def __init__(self, source: BinaryIO, compression: str, path: str) -> None:
        super().__init__()
        self._source, self._compression, self._path = source, compression, path
        self._new = _new_member(compression)
        self._member: Member | None = None
        self._input = b""
        self._position = 0
        self._members_read = 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def close(self) -> None:
        """Close the compressed file too."""
        self._source.close()
        super().close()

    def read(self, size: int = -1, /) -> bytes:
        """Return some of the next bytes, at most `size`."""
        if size < 0:
            return self.readall()
        if size == 0:
            return b""
        out = b""
        while not out and (member := self._current()) is not None:
            out = self._advance(member, size)
        self._position += len(out)
        return out

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill the start of `buffer`."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _current(self) -> Member | None:
        """Return the member being read, begun where needed; None at a proper end of the file."""
        while self._member is None:
            if not self._input:
                self._input = self._source.read(_CHUNK)
                if not self._input:
                    return None
            if self._members_read and self._compression in _PADDED:
                self._input = self._input.lstrip(b"\0")
            if self._input:
                self._member = self._new()
        return self._member

    def _advance(self, member: Member, size: int) -> bytes:
        data = b""
        if member.needs_input:
            data, self._input = self._input or self._source.read(_CHUNK), b""
            if not data:
                raise DataError(
                    f"{self._path}: the {self._compression} data is cut off; "
                    f"it ends inside a member, after {self._position} bytes of content"
                )
        try:
            out = member.decompress(data, size)
        except _LIBRARY_ERRORS as error:
            raise DataError(
                f"{self._path}: damaged {self._compression} data after {self._position} bytes of content: {error}"
            ) from error
        if member.eof:
            self._input = member.unused_data
            self._member = None
            self._members_read += 1
        return out
