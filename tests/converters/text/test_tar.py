import gzip
import io
import json
import os
import random
import tarfile

import pytest
import zstandard

from tokenyard.converters.text import BadRecord
from tokenyard.errors import DataError


def tar_bytes(members, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type = tarfile.DIRTYPE
            info.size = len(data or b"")
            archive.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


def kinds(records):
    return [record.kind if isinstance(record, BadRecord) else record.text for record in records]


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.tar", bytes), ("a.tar.gz", gzip.compress), ("a.tgz", gzip.compress), ("a.tar.zst", zstandard.compress)],
)
def test_each_txt_member_is_a_document_also_compressed_ones(texts, file, name, pack):
    members = [("d/", None), ("d/1.txt", b"\xef\xbb\xbfone"), ("d/2.txt.gz", gzip.compress(b"two")), ("3.txt", b"")]
    assert texts(file(name, pack(tar_bytes(members)))) == ["one", "two", ""]


def test_the_text_comes_from_json_where_there_is_no_txt_and_fields_always_do(read, file):
    members = [
        ("1.json", b"\xef\xbb\xbf" + json.dumps({"text": "from json", "n": 1}).encode()),
        ("2.json", json.dumps({"text": "not this", "n": 2}).encode()),
        ("2.txt", b"from txt"),
        ("3.txt", b"no json"),
    ]
    path = file("a.tar", tar_bytes(members))
    records = read(path, fields={"n": "int64?"})
    assert [(record.text, record.fields["n"]) for record in records] == [
        ("from json", 1),
        ("from txt", 2),
        ("no json", None),
    ]


def test_a_sample_without_text_is_a_bad_record_that_names_its_extensions(read, file):
    members = [("1.txt", b"a"), ("2.jpg", b"x"), ("2.cls", b"1"), ("3.txt", b"b"), ("README", b"x")]
    records = read(file("a.tar", tar_bytes(members)))
    assert kinds(records) == ["a", "missing_text", "b", "missing_text"]
    assert "sample '2' has no 'txt' member; its extensions are 'jpg', 'cls'" in str(records[1])


def test_dots_in_keys_are_refused_and_never_merged_or_dropped(read, file):
    members = [("22.0/1.1.txt", b"a"), ("22.0/1.2.txt", b"b"), ("Track 2.0.txt", b"c"), ("22.0/2.txt", b"d")]
    records = read(file("a.tar", tar_bytes(members)))
    assert kinds(records) == ["missing_text", "missing_text", "d"]
    assert "sample '22.0/1' has no 'txt' member; its extensions are '1.txt', '2.txt' (see tar_member)" in str(
        records[0]
    )


def test_the_member_that_holds_the_text_can_be_named(texts, file):
    path = file("a.tar", tar_bytes([("1.en.txt", b"hi"), ("1.de.txt", b"hallo")]))
    assert texts(path, tar_member="de.txt") == ["hallo"]


def test_two_members_of_one_name_are_a_bad_record(read, file):
    assert kinds(read(file("a.tar", tar_bytes([("1.txt", b"a"), ("1.txt", b"b")])))) == ["duplicate_key"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_member_above_the_limit_is_a_bad_record_and_the_next_is_read(read, file, compress):
    name = "1.txt.gz" if compress is gzip.compress else "1.txt"
    path = file("a.tar", tar_bytes([(name, compress(b"x" * 1_000_000)), ("2.txt", b"b")]))
    assert kinds(read(path, max_document_bytes=100_000)) == ["too_long", "b"]


def test_long_names_are_read_in_every_dialect(texts, file):
    long = "d/" * 90 + "x" * 150 + ".txt"
    for dialect in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        assert texts(file("a.tar", tar_bytes([(long, b"a"), ("é.txt", b"b")], format=dialect))) == ["a", "b"]


def test_hidden_members_are_passed_over(texts, file):
    assert texts(file("a.tar", tar_bytes([("._1.txt", b"rubbish"), ("1.txt", b"a")]))) == ["a"]


@pytest.mark.parametrize(("name", "pack"), [("a.tar", bytes), ("a.tar.gz", gzip.compress)])
def test_a_tar_cut_anywhere_is_an_error_also_at_a_boundary_of_members(read, file, name, pack):
    whole = tar_bytes([(f"{n}.txt", random.Random(n).randbytes(700).hex().encode()) for n in range(4)])
    member = 512 + 1536
    for size in (*range(1, 4 * member, 97), *range(member, 5 * member, member)):
        with pytest.raises(DataError, match=r"a\.tar.*: (ends inside the member '\d\.txt'|no end-of-ar)"):
            read(file(name, pack(whole[:size])))


def test_a_tar_without_its_end_is_read_once_it_is_mended_as_the_message_says(read, texts, file):
    cut = tar_bytes([("1.txt", b"a"), ("2.txt", b"b")])[:2048]
    path = file("a.tar", cut)
    with pytest.raises(DataError, match=r"after 2 members it stops at byte 2048.*append them: truncate -s \+1024"):
        read(path)
    os.truncate(path, 2048 + 1024)
    assert texts(path) == ["a", "b"]


def test_tars_joined_into_one_file_are_an_error_and_not_the_first_of_them(read, file):
    one = tar_bytes([("1.txt", b"a")])
    with pytest.raises(DataError, match=r"ends at byte 1024, but more data begin at byte 10240; tars were joined"):
        read(file("a.tar", one + tar_bytes([("2.txt", b"b")])))


def test_extensions_are_told_apart_without_regard_to_case(texts, file):
    path = file("a.tar", tar_bytes([("1.TXT", b"a"), ("2.Txt.GZ", gzip.compress(b"b")), ("3.JSON", b'{"text": "c"}')]))
    assert texts(path) == ["a", "b", "c"]
    assert texts(file("b.tar", tar_bytes([("1.en.TXT", b"hi")])), tar_member="EN.txt") == ["hi"]


def test_names_that_webdataset_keeps_for_itself_are_no_documents(texts, file):
    assert texts(file("a.tar", tar_bytes([("__meta__/a.txt", b"x"), ("1.txt", b"a"), ("__end__", b"x")]))) == ["a"]


def test_a_file_without_an_extension_is_a_bad_record_and_takes_no_sample_apart(read, file):
    members = [("1.json", b'{"n": 1}'), ("LICENSE", b"x"), ("1.txt", b"a"), ("2.json", b'{"n": 2}'), ("2.txt", b"b")]
    first, stray, second = read(file("a.tar", tar_bytes(members)), fields={"n": "int64"})
    assert [(d.text, d.fields["n"]) for d in (first, second)] == [("a", 1), ("b", 2)]
    assert "member 'LICENSE': a file without an extension belongs to no sample" in str(stray)


def test_a_key_that_comes_back_later_is_an_error(read, file):
    path = file("a.tar", tar_bytes([("1.txt", b"a"), ("2.txt", b"b"), ("1.json", b"{}")]))
    with pytest.raises(DataError, match=r"sample '1' don't follow one another, '1\.json' comes later.*--sort=name"):
        read(path)


def test_a_damaged_header_is_an_error_and_not_the_end(read, file):
    data = bytearray(tar_bytes([(f"{n}.txt", b"text") for n in range(4)]))
    data[2 * 1024 + 20] ^= 1
    with pytest.raises(DataError, match=r"no tar header at byte 2048, or a damaged one \(its checksum is wrong\)"):
        read(file("a.tar", bytes(data)))


def test_links_are_errors(read, file):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("1.txt")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match=r"member '1\.txt' before byte 512 is a symbolic link; pack with --deref"):
        read(file("a.tar", out.getvalue()))


def test_a_header_that_claims_gigabytes_is_an_error(read, file):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 8 << 30
    with pytest.raises(DataError, match="an extended header of 8589934592 bytes at byte 1536, expected at most"):
        read(file("a.tar", tar_bytes([("0.txt", b"a")])[:1024] + info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))


def test_an_empty_file_is_an_error_and_an_empty_archive_is_not(read, texts, file):
    assert texts(file("a.tar", tar_bytes([]))) == []
    with pytest.raises(DataError, match="0 bytes are no tar"):
        read(file("b.tar", b""))
