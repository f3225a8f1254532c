"""The tar walk: it takes nothing less for the whole, and says at which byte."""

import io
import os
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.formats.tar_by_hand import make, npy
from tokenyard.errors import DataError
from tokenyard.formats.webdataset import tar
from tokenyard.formats.webdataset.tar_source import StreamSource


def walk(data: bytes) -> list[tar.Member]:
    """The members of a tar in memory; a stream must give the same, or the same error."""
    try:
        found = tar.members(np.frombuffer(data, np.uint8), "t.tar")
    except DataError as error:
        with pytest.raises(DataError, match=f"^{re.escape(str(error))}$"):
            list(tar.walk(StreamSource(io.BytesIO(data).read), "t.tar"))
        raise
    source = StreamSource(io.BytesIO(data).read)
    contents = [(m, tar.read_member(source, m, "t.tar")) for m in tar.walk(source, "t.tar")]
    assert contents == [(m, data[m.start : m.start + m.size]) for m in found]
    return found


def one_header(name: str, size: int, **changes: object) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    for key, value in changes.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    """Two members of 136 bytes: headers at 0 and 1024, the end at 2048, padded to 10240."""
    return make(tmp_path / "a.tar", {"0.npy": npy([1]), "1.npy": npy([2])}).read_bytes()


def test_members_are_found_where_they_lie(data: bytes) -> None:
    assert walk(data) == [tar.Member("0.npy", 512, 136), tar.Member("1.npy", 1536, 136)]
    assert tar.first_members(np.frombuffer(data[:1024], np.uint8), "t.tar", 1) == [tar.Member("0.npy", 512, 136)]


@pytest.mark.parametrize("size", [1, 511, 512, 600, 647, 1024, 1535, 1536, 1600, 1671, 1672, 2047, 2048])
def test_a_tar_that_is_cut_anywhere_is_refused_with_the_byte(data: bytes, size: int) -> None:
    # (whole members, the one that it ends inside and where its bytes begin)
    whole, inside, begin = (0, 0, 512) if size < 648 else (1, 1, 1536) if size < 1672 else (2, None, 0)
    if inside is not None and size >= begin:
        message = rf"ends inside the member '{inside}\.npy', whose 136 bytes begin at byte {begin}; the tar has {size}"
    else:
        message = rf"no end-of-archive mark: after {whole} members it stops at byte {size}"
    with pytest.raises(DataError, match=rf"t\.tar: {message}"):
        walk(data[:size])


def test_the_end_is_one_zero_block_or_more(data: bytes) -> None:
    for size in (2048 + 512, 2048 + 1024, len(data)):
        assert len(walk(data[:size])) == 2


def test_nothing_is_no_tar() -> None:
    with pytest.raises(DataError, match=r"t\.tar: 0 bytes are no tar"):
        walk(b"")


def test_a_missing_end_can_be_mended_as_the_message_says(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cut.tar"
    path.write_bytes(data[:2048])
    with pytest.raises(DataError, match=r"append them: truncate -s \+1024"):
        walk(path.read_bytes())
    os.truncate(path, 2048 + 1024)
    assert len(walk(path.read_bytes())) == 2


def test_data_behind_the_end_is_refused(data: bytes) -> None:
    with pytest.raises(
        DataError, match=r"t\.tar: the archive ends at byte 2048, but more data begin at byte 10240; tars were"
    ):
        walk(data + data)


def test_a_wrong_checksum_is_refused(data: bytes) -> None:
    for place in (1024 + 3, 1024 + 150, 1024 + 300):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(
            DataError, match=r"t\.tar: no tar header at byte 1024, or a damaged one \(its checksum is wrong\)"
        ):
            walk(bytes(damaged))


def test_a_file_that_is_no_tar_is_refused() -> None:
    with pytest.raises(DataError, match=r"t\.tar: no tar header at byte 0"):
        walk(b"text " * 1000)


def test_sizes_past_8_gib_are_read_in_base_256() -> None:
    header = one_header("big.npy", 8 << 30)
    assert header[124] == 0x80
    with pytest.raises(
        DataError, match=r"inside the member 'big\.npy', whose 8589934592 bytes begin at byte 512; the tar has 512"
    ):
        walk(header)


def test_a_negative_size_is_refused() -> None:
    header = bytearray(one_header("a.npy", 0))
    header[124:136] = b"\xff" * 12
    header[148:156] = b" " * 8
    header[148:155] = b"%06o\0" % sum(header)
    with pytest.raises(DataError, match=r"t\.tar: the member at byte 0 has a size of -1; the tar is damaged"):
        walk(bytes(header))


def test_signed_checksums_of_old_systems_are_taken() -> None:
    header = bytearray(one_header("é.npy", 0))
    header[148:156] = b" " * 8
    header[148:155] = b"%06o\0" % int(np.frombuffer(bytes(header), np.int8).sum(dtype=np.int64))
    assert walk(bytes(header) + tar.END) == [tar.Member("é.npy", 512, 0)]


def test_old_headers_without_ustar_and_their_folders_are_read() -> None:
    made = b""
    for name in ("folder/", "folder/a.npy"):
        header = bytearray(one_header(name, 0, type=tarfile.AREGTYPE))
        header[257:265] = bytes(8)
        header[148:156] = b" " * 8
        header[148:155] = b"%06o\0" % sum(header)
        made += bytes(header)
    assert [m.name for m in walk(made + tar.END)] == ["folder/a.npy"]


def pax(records: dict[str, str], type: bytes = b"x") -> bytes:
    body = b""
    for key, value in records.items():
        line = f" {key}={value}\n".encode()
        length = len(line) + 1
        while len(str(length)) + len(line) != length:
            length = len(str(length)) + len(line)
        body += str(length).encode() + line
    return one_header("pax", len(body), type=type) + body + bytes(-len(body) % 512)


def test_pax_names_and_sizes_take_the_place_of_the_headers() -> None:
    data = pax({"path": "long.npy", "size": "3", "mtime": "1.5"}) + one_header("short.npy", 0) + b"abc" + bytes(509)
    assert walk(data + one_header("b.npy", 0) + tar.END) == [
        tar.Member("long.npy", 1536, 3),
        tar.Member("b.npy", 2560, 0),
    ]


def test_global_pax_headers_are_read_past_unless_they_name_files() -> None:
    data = one_header("a.npy", 0) + tar.END
    assert len(walk(pax({"comment": "a commit"}, b"g") + data)) == 1
    with pytest.raises(
        DataError, match=r"a global pax header at byte 512 sets the path and size of all members; unpack and"
    ):
        walk(pax({"path": "x", "size": "0"}, b"g") + data)


def test_sparse_members_of_pax_are_refused() -> None:
    with pytest.raises(DataError, match=r"a sparse member at byte 512 \(GNU\.sparse\.major\); pack without --sparse"):
        walk(pax({"GNU.sparse.major": "1"}) + one_header("a.npy", 0) + tar.END)


@pytest.mark.parametrize("body", [b"9 a=b\n", b"x a=b\n", b"5 ab\n", b"3 =b\n", b"99 path=x\n"])
def test_damaged_pax_headers_are_refused(body: bytes) -> None:
    data = one_header("pax", len(body), type=b"x") + body + bytes(512 - len(body))
    with pytest.raises(DataError, match=r"t\.tar: a damaged pax header at byte 512"):
        walk(data + one_header("a.npy", 0) + tar.END)


def test_an_extended_header_of_megabytes_is_refused_unread() -> None:
    data = one_header("pax", 2 << 20, type=b"x") + bytes(2 << 20)
    with pytest.raises(DataError, match="an extended header of 2097152 bytes at byte 512, expected at most 1048576"):
        walk(data + one_header("a.npy", 0) + tar.END)


def test_a_stream_is_read_once_and_front_to_back(data: bytes) -> None:
    source = StreamSource(io.BytesIO(data).read)
    members = list(tar.walk(source, "t.tar"))
    with pytest.raises(ValueError, match="byte 512 of the stream has been passed"):
        tar.read_member(source, members[0], "t.tar")


def test_headers_made_many_at_once_are_those_of_tarfile() -> None:
    names = [b"00000000001.tokens.npy", b"00000000002.tokens.npy"]
    sizes = np.array([0, tar.MAX_MEMBER_BYTES])
    made = tar.headers(np.frombuffer(b"".join(names), np.uint8).reshape(2, -1), sizes)
    for name, size, line in zip(names, sizes.tolist(), made, strict=True):
        info = tarfile.TarInfo(name.decode())
        info.size, info.mode = size, 0o444
        assert line.tobytes() == info.tobuf(tarfile.USTAR_FORMAT)
    with tarfile.open(fileobj=io.BytesIO(made[0].tobytes() + tar.END)) as archive:
        assert archive.getnames() == [names[0].decode()]
