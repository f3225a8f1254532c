import bz2
import gzip
import lzma
import tracemalloc
from itertools import pairwise

import pytest
import zstandard

from tokenyard.converters.text import TextOptions, plan_texts, read_split
from tokenyard.errors import DataError

COMPRESS = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
LINES = [f'{{"text": "line {n} é"}}\n'.encode() for n in range(2_000)]
TEXTS = [f"line {n} é" for n in range(2_000)]


@pytest.fixture(params=COMPRESS)
def suffix(request):
    return request.param


def test_a_compressed_file_is_read_whole(texts, file, suffix):
    assert texts(file("a.jsonl" + suffix, COMPRESS[suffix](b"".join(LINES)))) == TEXTS


def test_all_members_are_read_wherever_they_are_cut(texts, file, suffix):
    data = b"".join(LINES)
    cuts = [0, 1, 17, 17, 70_000 % len(data), len(data)]
    members = [COMPRESS[suffix](data[a:b]) for a, b in pairwise(cuts)]
    assert texts(file("a.jsonl" + suffix, b"".join(members))) == TEXTS


def test_a_cut_stream_is_an_error_and_never_a_shorter_file(read, file, suffix):
    whole = COMPRESS[suffix](b"".join(LINES))
    for size in {12, len(whole) // 2, len(whole) - 5, len(whole) - 1}:
        path = file("a.jsonl" + suffix, whole[:size])
        with pytest.raises(DataError, match=r"cut off; it ends inside a member, after \d+ bytes of content"):
            read(path)


def test_damage_is_an_error_with_its_place(read, file, suffix):
    whole = bytearray(COMPRESS[suffix](b"".join(LINES)))
    for at in range(len(whole) // 2, len(whole) // 2 + 40):
        whole[at] ^= 0xA5
    with pytest.raises(DataError, match=r"a\.jsonl.*(damaged \w+ data after \d+ bytes|cut off)"):
        read(file("a.jsonl" + suffix, bytes(whole)))


def test_rubbish_behind_the_last_member_is_an_error(read, file, suffix):
    path = file("a.jsonl" + suffix, COMPRESS[suffix](b"".join(LINES)) + b"rubbish!")
    with pytest.raises(DataError, match=r"damaged \w+ data after|cut off"):
        read(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_zeros_behind_a_member_are_padding(texts, file, suffix):
    member = COMPRESS[suffix](b"".join(LINES))
    assert texts(file("a.jsonl" + suffix, member + b"\0" * 8 + member + b"\0" * 4)) == TEXTS * 2


def test_a_skippable_frame_is_passed_over(texts, file):
    skippable = b"\x5a\x2a\x4d\x18" + (6).to_bytes(4, "little") + b"ignore"
    frame = zstandard.compress(b"".join(LINES))
    assert texts(file("a.jsonl.zst", skippable + frame + skippable + frame)) == TEXTS * 2


def test_frames_without_a_content_size_are_read(texts, file):
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"".join(LINES))
    assert texts(file("a.jsonl.zst", frame)) == TEXTS


@pytest.mark.parametrize(("name", "claimed", "found"), [("a.jsonl.zst", "zstd", "none"), ("a.jsonl", "none", "gzip")])
def test_a_name_that_lies_is_noted_and_the_bytes_decide(file, name, claimed, found):
    data = b"".join(LINES)
    path = file(name, gzip.compress(data) if found == "gzip" else data)
    plan = plan_texts(path, TextOptions())
    documents = [document for split in plan.splits for document in read_split(split, TextOptions())]
    assert [document.text for document in documents] == TEXTS
    (note,) = plan.notes
    assert note.kind == "compressed_against_name"
    assert f"the name says compression {claimed}, the bytes say {found}" in note.message


def test_lz4_is_refused_by_name(file):
    with pytest.raises(DataError, match="compressed with LZ4, which is not read here; use gzip, zstd, bzip2 or xz"):
        plan_texts(file("a.jsonl", b"\x04\x22\x4d\x18" + b"\0" * 20), TextOptions())


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".xz"])
def test_a_bomb_takes_little_memory(file, suffix):
    bomb = COMPRESS[suffix](bytes(200 << 20))
    path = file("a.jsonl" + suffix, bomb)
    options = TextOptions(max_document_bytes=1 << 20)
    (split,) = plan_texts(path, options).splits
    tracemalloc.start()
    (bad,) = read_split(split, options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bad.kind == "too_long"
    assert "a line of 209715200 bytes" in bad.message
    assert peak < 80 << 20  # zstandard can't be told to give less for 1 KiB of this
