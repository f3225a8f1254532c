"""Other people's tars: how members make samples, which hold the tokens, what the others become, what is refused."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.tar_by_hand import make, npy, special
from tokenyard import Corpus, open_corpus
from tokenyard.digest import digest_of
from tokenyard.errors import ConfigError, DataError, TokenyardError
from tokenyard.formats import webdataset


def all_tokens(corpus: Corpus) -> list[list[int]]:
    found = [corpus[i].tolist() for i in range(len(corpus))]
    assert [b.row(i)["tokens"].tolist() for b in corpus.batches() for i in range(len(b))] == found
    return found


IDS = [[1, 2, 3], [], [65535]]


def bare(ids: list[int], dtype: str) -> bytes:
    return np.array(ids, dtype).tobytes()


@pytest.mark.parametrize(
    ("extension", "encode", "options", "dtype"),
    [
        ("tokens.npy", lambda ids: npy(ids, "uint16"), {}, "uint16"),
        ("input_ids.npy", lambda ids: npy(ids, "int64"), {}, "int64"),
        ("npy", lambda ids: npy(ids, ">i4"), {}, "int32"),
        ("NPY", lambda ids: npy(ids, "uint32"), {}, "uint32"),
        ("ids.npy", lambda ids: npy(ids, "int32"), {}, "int32"),
        ("x.ids.npy", lambda ids: npy(ids, "int32"), {"tokens": ".x.ids.npy"}, "int32"),
        ("tokens.bin", lambda ids: bare(ids, "uint16"), {"token_dtype": "uint16"}, "uint16"),
        ("bin", lambda ids: bare(ids, ">u4"), {"token_dtype": ">u4"}, "uint32"),
        ("json", lambda ids: json.dumps({"input_ids": ids}).encode(), {}, "uint32"),
        ("tokens.json", lambda ids: json.dumps(ids).encode(), {}, "uint32"),
    ],
)
@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz"])
def test_tokens_come_in_every_kind_of_member(
    tmp_path: Path, extension: str, encode: Any, options: dict[str, Any], dtype: str, suffix: str
) -> None:
    members = {f"data/{i:03d}.{extension}": encode(ids) for i, ids in enumerate(IDS)}
    mode = "w" if suffix == ".tar" else "w:gz"
    make(tmp_path / f"d/a{suffix}", dict(list(members.items())[:2]), mode=mode)
    make(tmp_path / f"d/b{suffix}", dict(list(members.items())[2:]), mode=mode)
    corpus = open_corpus(tmp_path / "d", **options)
    assert corpus.format == "webdataset"
    assert corpus.schema.token_dtype == dtype
    assert all_tokens(corpus) == IDS
    np.testing.assert_array_equal(corpus.gather_rows(np.array([2, 0]))[0], [65535, 1, 2, 3])
    assert digest_of(corpus.batches()).tokens == digest_of(open_corpus(tmp_path / "d", **options).batches()).tokens


def test_a_list_of_tars_is_read_in_its_order(tmp_path: Path) -> None:
    first = make(tmp_path / "z.tar", {"0.npy": npy([1])})
    second = make(tmp_path / "a.tar", {"0.npy": npy([2])})
    assert all_tokens(open_corpus([first, second])) == [[1], [2]]
    assert all_tokens(open_corpus(second)) == [[2]]


def test_members_group_by_the_path_up_to_the_first_dot(tmp_path: Path) -> None:
    members = {
        "./a.b/1.npy": npy([1]),
        "./a.b/1.txt": b"one",
        "c/1.txt": b"two",
        "c/1.npy": npy([2]),
        "__meta__": b"",
        "__meta__/2.npy": npy([9]),
    }
    corpus = open_corpus(make(tmp_path / "a.tar", members))
    assert all_tokens(corpus) == [[1], [2]]
    assert [corpus.row(i)["txt"] for i in (0, 1)] == ["one", "two"]


def test_other_members_become_fields_of_their_own_type(tmp_path: Path) -> None:
    first = {
        "tokens.npy": npy([1, 2]),
        "mask.npy": npy([0, 1], "uint8"),
        "score.npy": npy(0.5, ">f4"),
        "ok.npy": npy(True),
        "source.txt": "hé".encode(),
        "meta.json": b'{"a": 1}',
        "cls": b"-7\n",
        "png": b"\x89PNG",
        "obj.pyd": b"\x80\x04.",
        "note.md": b"raw",
    }
    second = {"tokens.npy": npy([3]), "mask.npy": npy([1], "uint8"), "score.npy": npy(1.5, ">f4"), "ok.npy": npy(False)}
    second |= {"meta.json": b"{}", "png": b"", "obj.pyd": b"", "note.md": b""}
    members = {f"0.{e}": d for e, d in first.items()} | {f"1.{e}": d for e, d in second.items()}
    corpus = open_corpus(make(tmp_path / "a.tar", members))
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == {
        "mask": "uint8[]", "score": "float32", "ok": "bool", "source": "string?", "meta": "string", "cls": "int64?",
        "png": "bytes", "obj": "bytes", "note": "bytes",
    }  # fmt: skip
    row = corpus.row(0)
    assert (row["score"], row["ok"], row["source"], row["meta"], row["cls"]) == (0.5, True, "hé", '{"a": 1}', -7)
    assert (row["png"], row["obj"], row["note"]) == (b"\x89PNG", b"\x80\x04.", b"raw")
    assert row["mask"].tolist() == [0, 1]
    again = corpus.row(1)
    assert (again["score"], again["ok"], again["source"], again["cls"]) == (1.5, False, None, None)
    np.testing.assert_array_equal(corpus.gather_rows(np.array([1, 0]), "mask")[0], [1, 0, 1])


def test_two_kinds_of_one_name_keep_their_whole_extension(tmp_path: Path) -> None:
    members = {"0.tokens.npy": npy([1]), "0.a.txt": b"t", "0.a.json": b"1", "0.b.txt": b"u", "0.b": b"v"}
    corpus = open_corpus(make(tmp_path / "a.tar", members))
    assert corpus.row(0) == {"tokens": 1, "a_txt": "t", "a_json": "1", "b_txt": "u", "b": b"v"}


def test_named_fields_may_be_missing_and_all_other_members_are_left_out(tmp_path: Path) -> None:
    make(tmp_path / "d/a.tar", {"0.npy": npy([1]), "0.txt": b"one", "0.x.npy": npy([[1]]), "README": b""})
    make(tmp_path / "d/b.tar", {"0.npy": npy([2]), "0.new": b""})
    corpus = open_corpus(tmp_path / "d", fields=["txt"])
    assert [corpus.row(i)["txt"] for i in (0, 1)] == ["one", None]
    assert not open_corpus(tmp_path / "d", fields=[]).schema.fields


def test_only_the_first_samples_are_looked_at_to_find_the_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webdataset, "_HEAD_MEMBERS", 5)
    members = {f"{i}.{e}": d for i in range(9) for e, d in (("npy", npy([i])), ("txt", b"t"))}
    for suffix, mode in ((".tar", "w"), (".tar.gz", "w:gz")):
        corpus = open_corpus(make(tmp_path / f"a{suffix}", members, mode=mode))
        assert str(corpus.schema.fields["txt"]) == "string"
        assert len(corpus) == 9


def test_a_gzipped_tar_whose_first_samples_are_large_is_read_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webdataset, "_HEAD_BYTES", 1_000)
    path = make(tmp_path / "a.tar.gz", {"0.npy": npy(np.arange(5_000))}, mode="w:gz")
    assert all_tokens(open_corpus(path)) == [list(range(5_000))]


def test_a_gzipped_tar_past_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdataset, "_MAX_DECODED", 20_000)
    path = make(tmp_path / "a.tar.gz", {"0.npy": npy(np.zeros(5_000, int))}, mode="w:gz")
    with pytest.raises(
        DataError, match=r"a\.tar\.gz: more than 20000 bytes after decompression; unpack the file first"
    ):
        open_corpus(path)


def test_shards_of_several_dtypes_are_one_corpus_of_the_widest(tmp_path: Path) -> None:
    for name, dtype in (("a", "int32"), ("b", "uint16"), ("c", "int64"), ("d", "uint64")):
        make(tmp_path / f"{name}.tar", {"0.npy": npy([7], dtype)})
    corpus = open_corpus([tmp_path / f"{name}.tar" for name in "abc"])
    assert corpus.schema.token_dtype == "int64"
    assert all_tokens(corpus) == [[7], [7], [7]]
    np.testing.assert_array_equal(corpus.gather_rows(np.array([1, 0]))[0], [7, 7])
    with pytest.raises(DataError, match="mixed token dtypes that no integer type holds together; open them apart"):
        open_corpus([tmp_path / "c.tar", tmp_path / "d.tar"])


def test_a_wider_dtype_in_a_shard_that_was_not_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webdataset, "_HEADS", 1)
    for name, dtype in (("a", "int32"), ("b", "int64")):
        make(tmp_path / f"{name}.tar", {"0.npy": npy([7], dtype)})
    with pytest.raises(DataError, match=r"b\.tar: its tokens are int64, other shards' int32; a corpus has one dtype"):
        open_corpus(tmp_path)


def test_fields_that_only_some_shards_have_are_nullable(tmp_path: Path) -> None:
    make(tmp_path / "a.tar", {"0.npy": npy([1]), "0.a.txt": b"a"})
    make(tmp_path / "b.tar", {"0.npy": npy([2]), "0.b.txt": b"b"})
    corpus = open_corpus(tmp_path)
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == {"a": "string?", "b": "string?"}
    assert [(corpus.row(i)["a"], corpus.row(i)["b"]) for i in (0, 1)] == [("a", None), (None, "b")]


def test_names_that_lead_outside_are_keys_and_nothing_else(tmp_path: Path) -> None:
    corpus = open_corpus(make(tmp_path / "d/a.tar", {"../../x.npy": npy([1]), "/etc/y.npy": npy([2])}))
    assert all_tokens(corpus) == [[1], [2]]
    assert [p.name for p in tmp_path.rglob("*")] == ["d", "a.tar"]


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_folders_and_long_names_are_read_in_every_dialect(tmp_path: Path, format: int) -> None:
    long = "deep/" * 20 + ("n" * 80 if format == tarfile.USTAR_FORMAT else "é" * 120)
    members: dict[str, Any] = {
        "deep": special("deep", tarfile.DIRTYPE),
        f"{long}.tokens.npy": npy([1]),
        "after.tokens.npy": npy([2]),
    }
    corpus = open_corpus(make(tmp_path / "a.tar", members, format=format))
    assert all_tokens(corpus) == [[1], [2]]


def test_members_that_a_tar_can_hold_but_a_corpus_not_are_refused(tmp_path: Path) -> None:
    kinds = {
        tarfile.SYMTYPE: "a symbolic link; pack with --dereference",
        tarfile.LNKTYPE: "a hard link; pack with --hard-dereference",
        tarfile.FIFOTYPE: "a named pipe",
        tarfile.CHRTYPE: "a device",
        tarfile.GNUTYPE_SPARSE: "a sparse member; pack without --sparse",
        b"Z": "of the unknown type 'Z'",
    }
    for type, message in kinds.items():
        members: dict[str, Any] = {"0.npy": npy([1]), "1.npy": special("1.npy", type, "0.npy")}
        with pytest.raises(DataError, match=rf"a\.tar: the member '1\.npy' before byte 1536 is {message}"):
            open_corpus(make(tmp_path / "a.tar", members))


GRID, OBJECTS = npy([[1, 2]]), npy(np.array([{}], object), allow_pickle=True)


@pytest.mark.parametrize(
    ("members", "options", "error", "message"),
    [
        (
            {"0.txt": b"", "1.txt": b""},
            {},
            DataError,
            r"a\.tar: 2 of 2 samples have no tokens \('0', '1'\): members are \.txt; name the one that holds token ids",
        ),
        ({"0.pyd": b""}, {}, DataError, r"members are \.pyd \(\.pyd are pickled, which tokenyard never unpickles\)"),
        (
            {"0.pth": b""},
            {"tokens": "pth"},
            DataError,
            r"members \.pth are pickled, which tokenyard never unpickles; write",
        ),
        (
            {"0.jpg": b""},
            {"tokens": "jpg"},
            DataError,
            r"members \.jpg are not a kind that holds token ids; write tokens as",
        ),
        ({"0.npy": b""}, {"tokens": "ids"}, ConfigError, r"no member \.ids; there are \.npy"),
        ({"0.a.npy": npy([1]), "0.b.npy": npy([1])}, {}, DataError, r"have no tokens .*members are \.a\.npy, \.b\.npy"),
        ({"0.tokens.bin": b"12"}, {}, DataError, r"members \.tokens\.bin are bare bytes; name the dtype of their ids"),
        (
            {"0.bin": b"123"},
            {"token_dtype": "uint16"},
            DataError,
            r"'0\.bin' \(row 0\): 3 bytes, no whole number of uint16",
        ),
        ({"0.npy": npy([1.5])}, {}, DataError, r"its tokens are float64, but ids are integers; name other members"),
        ({"0.npy": npy([True])}, {}, DataError, r"its tokens are bool, but ids are integers"),
        ({"0.npy": npy([1]), "1.npy": npy([1.5])}, {}, DataError, r"'1\.npy' \(row 1\): float64, other rows are int64"),
        (
            {"0.npy": GRID},
            {},
            DataError,
            r"'0\.npy' \(row 0\): an array of shape \(1, 2\), expected 1 dimension; write it flat",
        ),
        (
            {"0.npy": OBJECTS},
            {},
            DataError,
            r"'0\.npy' .*: an array of Python objects \(pickled\), which tokenyard never",
        ),
        ({"0.npy": npy([1])[:-1]}, {}, DataError, r"'0\.npy' \(row 0\): 135 bytes, but its header promises 136"),
        ({"0.npy": npy([1])[:9]}, {}, DataError, r"'0\.npy' \(row 0\): 9 bytes are no \.npy file"),
        ({"0.npy": npy([1])[:50]}, {}, DataError, r"'0\.npy' \(row 0\): 50 bytes, but its header alone has 128"),
        ({"0.npy": b"x" * 99}, {}, DataError, r"'0\.npy' \(row 0\): it doesn't begin as a \.npy file"),
        (
            {"0.npy": npy([1]).replace(b"Y\1\0", b"Y\7\0")},
            {},
            DataError,
            r"a \.npy file of version 7, unknown to numpy",
        ),
        (
            {"0.npy": npy([1]).replace(b"'descr'", b"'other'")},
            {},
            DataError,
            r"'0\.npy' \(row 0\): Header does not contain",
        ),
        (
            {"0.json": b'{"tokens": [1], "url": "x"}'},
            {},
            DataError,
            r"'0\.json' \(row 0\): keys beside 'tokens' would be lost: url; leave them out with fields=\[\]",
        ),
        (
            {"0.json": b'{"tokens": [1]}', "1.json": b'{"text": ""}'},
            {},
            DataError,
            r"'1\.json' .*: no 'tokens' or 'input_ids'",
        ),
        (
            {"0.json": b'{"tokens": [1]}', "1.json": b"{"},
            {},
            DataError,
            r"'1\.json' \(row 1\): Expecting property name",
        ),
        (
            {"0.tokens.json": b"[1, true]"},
            {},
            DataError,
            r"'0\.tokens\.json' .*: its tokens are not a list of whole numbers",
        ),
        ({"0.tokens.json": b"[1, -1]"}, {}, DataError, r"'0\.tokens\.json' .*: an id outside 0 \.\. 4294967295"),
        (
            {"0.npy": npy([1]), "0.x.npy": GRID, "0.txt": b""},
            {},
            DataError,
            r"\.x\.npy \('0\.x\.npy'\): an array of shape \(1, 2\); .* dimension; leave it out with fields=\['txt'\]",
        ),
        (
            {"0.npy": npy([1]), "0.x.npy": npy(["s"])},
            {},
            DataError,
            r"\.x\.npy \('0\.x\.npy'\): an array of <U1; leave it out",
        ),
        ({"0.npy": npy([1])}, {"fields": ["txt"]}, ConfigError, r"no members txt to keep; there are \.npy"),
        (
            {"0.npy": npy([1])},
            {"split": {"eos": 0}},
            ConfigError,
            "'split' cuts one long array, but a tar's sample is a row",
        ),
        (
            {"0.npy": npy([1]), "1.txt": b"", "2.txt": b""},
            {},
            DataError,
            r"2 of 3 samples have no member \.npy for tokens: '1', '2'; add it, or remove these samples",
        ),
        (
            {"0.npy": npy([1]), "README": b"", ".DS_Store": b""},
            {},
            DataError,
            r"2 files belong to no sample, having no key and extension: 'README', '\.DS_Store'; remove them, or name",
        ),
        (
            {"0.npy": npy([1]), "1.npy": npy([1]), "0.txt": b""},
            {},
            DataError,
            r"the members of sample '0' don't follow one another, '0\.txt' comes later; .*--sort=name",
        ),
        ({"0.npy": npy([1]), "0.NPY": npy([1])}, {}, DataError, r"sample '0' has two members \.npy; remove one"),
        ({}, {}, DataError, r"no samples in a\.tar"),
        ({"0.npy": npy([1]), "0.cls": b"7.5"}, {}, DataError, r"field 'cls', row 0: b'7\.5' is no 64-bit whole number"),
        ({"0.npy": npy([1]), "0.txt": b"\xff"}, {}, DataError, r"field 'txt', row 0: not UTF-8 \(invalid start byte"),
    ],
)
def test_what_can_not_be_read_is_refused_with_its_name_and_the_way_out(
    tmp_path: Path, members: Any, options: dict[str, Any], error: type[TokenyardError], message: str
) -> None:
    path = make(tmp_path / "a.tar", members)
    with pytest.raises(error, match=message):
        list(open_corpus(path, **options).batches())


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["22.0/1.1.npy", "22.0/1.2.npy", "Track 2.0.npy"], {}),
        (["a.npy", "a.1.npy"], {}),
        (["a.npy", "a.1.npy"], {"fields": []}),
        (["a.npy", "b 2.0.npy"], {}),
    ],
)
def test_keys_with_dots_are_refused_never_merged_or_dropped(
    tmp_path: Path, names: list[str], options: dict[str, Any]
) -> None:
    path = make(tmp_path / "a.tar", {name: npy([i]) for i, name in enumerate(names)})
    with pytest.raises(
        DataError, match=r"would be \.\d\.npy of another sample, since keys end at the first dot; rename"
    ):
        open_corpus(path, **options)


def test_members_with_numbers_are_read_when_they_are_named(tmp_path: Path) -> None:
    path = make(tmp_path / "a.tar", {"k.npy": npy([1]), "k.0.png": b"a", "k.1.png": b"b"})
    assert open_corpus(path, fields=["0.png", "1.png"]).row(0) == {"tokens": 1, "0": b"a", "1": b"b"}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            {"0.npy": npy([1])},
            r"b\.tar: 1 of 1 samples have no member \.txt for field 'txt': '0'; name the fields to keep",
        ),
        (
            {"0.npy": npy([1]), "0.txt": b"", "0.new": b""},
            r"b\.tar: the member '0\.new' is of a kind that .* don't have \(they have \.n\.npy, \.npy, \.txt\)",
        ),
        (
            {"0.npy": npy([1]), "0.n.npy": npy(1, "int8"), "0.txt": b""},
            r"b\.tar: members \.n\.npy are int8, other shards' are int64; a corpus has one schema",
        ),
    ],
)
def test_shards_that_differ_from_those_looked_at_are_refused(
    tmp_path: Path, second: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webdataset, "_HEADS", 1)
    make(tmp_path / "d/a.tar", {"0.npy": npy([1]), "0.n.npy": npy(1), "0.txt": b"", "1.npy": npy([1]), "1.txt": b""})
    make(tmp_path / "d/b.tar", second)
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path / "d")


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.xz", ".tar.bz2"])
def test_other_compressions_are_refused_beside_plain_tars_too(tmp_path: Path, suffix: str) -> None:
    make(tmp_path / "a.tar", {"0.npy": npy([1])})
    (tmp_path / f"b{suffix}").write_bytes(b"")
    with pytest.raises(DataError, match=rf"b\{suffix}: tars are read raw or gzipped, not .*; decompress it first"):
        open_corpus(tmp_path)


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.tar.gz", {"0.npy": npy([1])}, mode="w:gz")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"a\.tar\.gz: damaged gz data \(it ends early\); restore the file"):
        open_corpus(path)
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match=r"a\.tar\.gz: 0 bytes are no tar; make it again"):
        open_corpus(path)
