"""The members of a tar, read as a stream, with nothing lost in silence.

`tarfile` takes a damaged header behind the first member for the end of the archive, and remembers every member for
ever. Both are mended here.
"""

import tarfile
from collections.abc import Iterator
from typing import BinaryIO, Self, cast

from tokenyard.converters.text.compression import ByteStream
from tokenyard.errors import DataError

_MAX_HEADER_BYTES = 1 << 20
_HEADER_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class _StrictInfo(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADER_TYPES and info.size > _MAX_HEADER_BYTES:
            raise DataError(f"a header of {info.size} bytes; expected at most {_MAX_HEADER_BYTES}")
        return info

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except (tarfile.EOFHeaderError, tarfile.EmptyHeaderError):  # type: ignore[attr-defined]
            raise  # the proper ends: a block of zeros, or nothing at all
        except tarfile.HeaderError as error:
            raise DataError(f"a damaged header at byte {tarfile_.offset}: {error}") from error


class Member:
    """A regular file of the archive. `read` must be called, if at all, before the next member is asked for."""

    def __init__(self, archive: tarfile.TarFile, info: tarfile.TarInfo, path: str) -> None:
        self._archive, self._info, self._path = archive, info, path
        self.name = info.name
        self.num_bytes = info.size
        self.byte = info.offset_data

    def read(self) -> bytes:
        """Return its content; DataError when the archive ends inside."""
        try:
            file = self._archive.extractfile(self._info)
            data = file.read() if file else b""
        except tarfile.TarError as error:
            raise DataError(
                f"{self._path}: cut off in member {self.name!r}, after byte {self.byte}: {error}"
            ) from error
        if len(data) != self.num_bytes:
            raise DataError(f"{self._path}, member {self.name!r}: expected {self.num_bytes} bytes, found {len(data)}")
        return data


def tar_members(stream: ByteStream, path: str) -> Iterator[Member]:
    """Yield the regular files in order; folders are left out, links and devices are errors.

    DataError, with the byte, for a cut archive and a damaged header.
    """
    archive: tarfile.TarFile | None = None
    try:
        with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", tarinfo=_StrictInfo) as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]
                if info.isreg():
                    yield Member(archive, info, path)
                elif not info.isdir():
                    raise DataError(f"member {info.name!r} is a link or a device; expected files")
    except (tarfile.TarError, DataError) as error:
        at = archive.offset if archive is not None else 0
        raise DataError(f"{path}: damaged or cut off in the member that ends at byte {at}: {error}") from error
