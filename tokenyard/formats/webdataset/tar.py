"""Plain tars: headers written many at once, and members found by one walk that never takes less for the whole.

Written: POSIX USTAR, without times, owners or users, so equal rows give equal bytes, and ended by two zero blocks.

Read: USTAR, GNU and pax archives, with long names and sizes past 8 GiB. Refused, with the byte position: a tar that is
cut or has no end (a writer that was killed leaves one, cut at a member's boundary too), a wrong checksum, bytes behind
the end, sparse members, links and devices.

Layout: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html, "ustar Interchange Format".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.digits import octal
from tokenyard.formats.webdataset.tar_source import BufferSource, TarSource
from tokenyard.rows import Array, Offsets

BLOCK = 512
END = bytes(2 * BLOCK)
_ZEROS = bytes(BLOCK)
#: What fits the header's name, and its eleven octal digits.
MAX_NAME = 100
MAX_MEMBER_BYTES = 8**11 - 1
_MAX_EXTENSION_BYTES = 1 << 20

_NAME, _SIZE, _SUM, _FLAG, _MAGIC, _PREFIX = slice(0, 100), slice(124, 136), slice(148, 156), 156, 257, slice(345, 500)
_MODE, _NOBODY, _NO_TIME = b"0000444", b"0000000", b"00000000000"
_REGULAR = b"0\x007"
_IGNORED = {b"5"[0]: "directory", b"K"[0]: "long name of a link", b"V"[0]: "volume label"}
_REFUSED = {
    b"1"[0]: "a hard link; pack with --hard-dereference",
    b"2"[0]: "a symbolic link; pack with --dereference",
    b"3"[0]: "a device",
    b"4"[0]: "a device",
    b"6"[0]: "a named pipe",
    b"S"[0]: "a sparse member; pack without --sparse",
    b"M"[0]: "the rest of a member of another volume; join the volumes first",
}


def padded(sizes: Offsets) -> Offsets:
    """Bytes that members of ``sizes`` bytes take, without their headers."""
    return (sizes + BLOCK - 1) // BLOCK * BLOCK


def headers(names: Array, sizes: Offsets) -> Bytes:
    """uint8[n, 512]: the headers of regular files. ``names``: uint8[n, at most 100]; ``sizes`` of 8 GiB at most."""
    numbers = octal(sizes, 11)
    sums = names.sum(axis=1, dtype=np.int64) + numbers.sum(axis=1, dtype=np.int64) + _TEMPLATE.sum(dtype=np.int64)
    lines = np.empty((len(sizes), BLOCK), np.uint8)
    lines[:] = _TEMPLATE
    lines[:, : names.shape[1]] = names
    lines[:, 124:135] = numbers
    lines[:, 148:154] = octal(sums, 6)
    lines[:, 154] = 0
    return lines


def _template() -> Bytes:
    """A header without name and size, and with blanks where its checksum goes, as the checksum counts them."""
    line = np.zeros(BLOCK, np.uint8)
    fixed = {100: _MODE, 108: _NOBODY, 116: _NOBODY, 136: _NO_TIME, _MAGIC: b"ustar", _MAGIC + 6: b"00", _FLAG: b"0"}
    for place, text in fixed.items():
        line[place : place + len(text)] = np.frombuffer(text, np.uint8)
    line[_SUM] = b" "[0]
    return line


_TEMPLATE = _template()


class Member(NamedTuple):
    """A regular file: its name, and where its bytes lie."""

    name: str
    start: int
    size: int


def members(buffer: Bytes, where: str) -> list[Member]:
    """The regular files of a tar, in order. Raises DataError, naming ``where`` and the byte, unless it is whole."""
    return list(walk(BufferSource(buffer), where))


def first_members(buffer: Bytes, where: str, count: int) -> list[Member]:
    """The first ``count`` regular files, or all; the tar behind them is not looked at."""
    return list(islice(walk(BufferSource(buffer), where), count))


def walk(source: TarSource, where: str) -> Iterator[Member]:
    """The regular files of a tar, each as soon as its header is read; the errors are those of ``members``.

    Out of a stream, a member's bytes can be read (``read_member``) until the next one is asked for.
    """
    return _Walk(source, where).members()


def read_member(source: TarSource, member: Member, where: str) -> bytes:
    """A member's bytes. Raises DataError when the tar ends inside."""
    data = source.read(member.start, member.size)
    if len(data) < member.size:
        raise _cut(member, source, where)
    return data


def _cut(member: Member, source: TarSource, where: str) -> DataError:
    return DataError(
        f"{where}: ends inside the member {member.name!r}, whose {member.size} bytes begin at byte {member.start}; "
        f"the tar has {source.num_bytes}. It was cut: make it again, its last samples are lost"
    )


class _Walk:
    def __init__(self, source: TarSource, where: str) -> None:
        self._source = source
        self._where = where
        self._num_found = 0
        #: What extended headers say of the next member.
        self._pax: dict[str, str] = {}

    def members(self) -> Iterator[Member]:
        position, source = 0, self._source
        while True:
            header = source.read(position, BLOCK)
            if len(header) < BLOCK:
                self._fail_at_end(position)
            if not header[0] and header == _ZEROS:
                self._check_end(position)
                return
            start = position + BLOCK
            size = self._size(header, position)
            position = start + (size + BLOCK - 1) // BLOCK * BLOCK
            member = Member(self._name(header), start, size)
            if source.num_bytes is not None and start + size > source.num_bytes:
                raise _cut(member, source, self._where)
            if self._is_file(member, header[_FLAG]):
                self._num_found += 1
                yield member
            if source.num_bytes is None and not source.skip(start + size):
                raise _cut(member, source, self._where)

    def _is_file(self, member: Member, flag: int) -> bool:
        """Whether it is a regular file. Extended headers are kept for the member that they belong to."""
        start = member.start
        if flag in _REGULAR:
            if self._pax:
                self._pax = {}
            return not (member.name.endswith("/") and flag == 0)  # how directories were marked before POSIX
        if flag == b"L"[0]:
            self._pax["path"] = self._text(self._extension(member).rstrip(b"\0"), start)
        elif flag == b"x"[0]:
            self._pax |= self._records(member)
        elif flag == b"g"[0]:
            if changed := {"path", "size"} & self._records(member).keys():
                raise DataError(
                    f"{self._where}: a global pax header at byte {start} sets the {' and '.join(sorted(changed))} of "
                    "all members; unpack and pack again"
                )
        elif flag in _IGNORED:
            if flag != b"K"[0]:
                self._pax = {}
        else:
            what = _REFUSED.get(flag, f"of the unknown type {chr(flag)!r}")
            raise DataError(f"{self._where}: the member {member.name!r} before byte {start} is {what}")
        return False

    def _extension(self, member: Member) -> bytes:
        """The bytes of an extended header, or of a long name."""
        if member.size > _MAX_EXTENSION_BYTES:
            raise DataError(
                f"{self._where}: an extended header of {member.size} bytes at byte {member.start}, expected at most "
                f"{_MAX_EXTENSION_BYTES}; the tar is damaged"
            )
        return read_member(self._source, member, self._where)

    def _size(self, header: bytes, position: int) -> int:
        """The size of a member, once its header's checksum is right."""
        try:
            promised, size = _number(header[_SUM]), _number(header[_SIZE])
            if "size" in self._pax and header[_FLAG] not in b"xgLK":
                size = int(self._pax["size"])
        except ValueError:
            promised, size = -1, 0
        # The checksum counts its own field as blanks. adler32's low half is the sum of all bytes, plus 1, modulo 65521.
        found = (zlib.adler32(header) & 0xFFFF) - 1 - sum(header[_SUM]) + 8 * ord(" ")
        if (promised - found) % 65521 and promised != _signed_sum(header):
            raise DataError(
                f"{self._where}: no tar header at byte {position}, or a damaged one (its checksum is wrong); make the "
                "tar again"
            )
        if size < 0:
            raise DataError(f"{self._where}: the member at byte {position} has a size of {size}; the tar is damaged")
        return size

    def _name(self, header: bytes) -> str:
        if "path" in self._pax:
            return self._pax["path"]
        name = header[_NAME].split(b"\0", 1)[0]
        if header[_MAGIC : _MAGIC + 6] == b"ustar\0" and header[345]:
            name = header[_PREFIX].split(b"\0", 1)[0] + b"/" + name
        return name.decode("utf-8", "surrogateescape")

    def _records(self, member: Member) -> Mapping[str, str]:
        """What a pax header says, in lines of ``<length> <key>=<value>``."""
        data, start = self._extension(member), member.start
        found: dict[str, str] = {}
        position = 0
        try:
            while position < len(data) and data[position]:
                space = data.index(b" ", position)
                end = position + int(data[position:space])
                key, equals, value = data[space + 1 : end - 1].partition(b"=")
                if not equals or end > len(data) or end <= space:
                    raise ValueError("a record of the wrong length")
                found[key.decode()] = self._text(value, start)
                position = end
        except ValueError as e:
            raise DataError(f"{self._where}: a damaged pax header at byte {start} ({e}); make the tar again") from None
        if sparse := [key for key in found if key.startswith("GNU.sparse")]:
            raise DataError(f"{self._where}: a sparse member at byte {start} ({sparse[0]}); pack without --sparse")
        return found

    def _text(self, data: bytes, start: int) -> str:
        return data.decode("utf-8", "surrogateescape")

    def _fail_at_end(self, position: int) -> None:
        num_bytes = self._source.num_bytes
        if not num_bytes:
            raise DataError(f"{self._where}: 0 bytes are no tar; make it again")
        raise DataError(
            f"{self._where}: no end-of-archive mark: after {self._num_found} members it stops at byte {num_bytes}, "
            f"without the two zero blocks expected at byte {position}. Rows may be lost; make it again, or, when you "
            f"know that it is whole, unpack it if it is compressed, and append them: truncate -s +{2 * BLOCK}"
        )

    def _check_end(self, position: int) -> None:
        byte = self._source.first_nonzero(position)
        if byte is not None:
            raise DataError(
                f"{self._where}: the archive ends at byte {position}, but more data begin at byte {byte}; tars were "
                "joined into one file: unpack it with --ignore-zeros, and pack again"
            )


def _number(field: bytes) -> int:
    """A number in a header: octal text, or GNU's base 256."""
    if field[0] >= 0x80:
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else -1
    return int(field.rstrip(b" \0") or b"0", 8)


def _signed_sum(header: bytes) -> int:
    """The checksum as some old systems wrote it."""
    blank = header[: _SUM.start] + b" " * 8 + header[_SUM.stop :]
    return int(np.frombuffer(blank, np.int8).sum(dtype=np.int64))
