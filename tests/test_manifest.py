"""The manifest: read as it was written, and every problem of a damaged one told at once."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.digest import digest_of
from tokenyard.errors import DataError, SchemaError
from tokenyard.manifest import FileInfo, Layout, Manifest, ShardInfo, check_name
from tokenyard.manifest.shard_lines import ShardLines
from tokenyard.schema import Schema
from tokenyard.testing.samples import documents


def manifest() -> Manifest:
    schema, rows = documents(6)
    return Manifest(
        format="npy",
        schema=schema,
        layout=Layout(kind="packed", seq_len=32, lengths_field="spans", pad_token_id=0),
        shards=(
            ShardInfo(
                files=(FileInfo(name="shard-00000.npy", bytes=100, checksum="blake3:00"),),
                num_rows=4,
                num_tokens=50,
                index=FileInfo(name=".tokenyard/index/shard-00000.idx", bytes=90, checksum="blake3:11"),
                meta={"kind": [1, 2]},
            ),
            ShardInfo(files=(FileInfo(name="sub/shard-00001.npy", bytes=7),), num_rows=2, num_tokens=1),
        ),
        digests=digest_of([rows], schema.fields),
        provenance={"job": "write", "options": {"shard_bytes": 5}},
        meta={"note": "naïve 漢字"},
        files=(FileInfo(name="index.json", bytes=20, checksum="blake3:22"),),
    )


def as_json() -> dict[str, Any]:
    return json.loads(manifest().to_json())


def read(data: Any) -> Manifest:
    return Manifest.from_json(json.dumps(data), "corpus/manifest.json")


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert Manifest.from_json(manifest().to_json(), "") == manifest()
    assert Manifest.from_json(manifest().to_json().encode(), "") == manifest()
    assert manifest().to_json() == manifest().to_json()


def test_a_manifest_without_shards_and_digest_is_read_as_it_was_written() -> None:
    bare = Manifest(format="mds", schema=Schema(), shards=())
    assert Manifest.from_json(bare.to_json(), "") == bare


def test_a_manifest_of_before_files_beside_shards_names_none() -> None:
    data = as_json()
    del data["files"]
    assert read(data).files == ()
    assert [f.name for f in read(as_json()).all_files] == [
        "shard-00000.npy",
        ".tokenyard/index/shard-00000.idx",
        "sub/shard-00001.npy",
        "index.json",
    ]


def test_its_json_says_the_totals_and_has_a_line_for_each_shard() -> None:
    data = as_json()
    assert (data["rows"], data["tokens"], data["bytes"]) == (6, 51, 107)
    lines = manifest().to_json().splitlines()
    assert [sum(f'"{n}"' in line for line in lines) for n in ("shard-00000.npy", "sub/shard-00001.npy")] == [1, 1]


def changed(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    change.__name__ = f"{'.'.join(map(str, path))}={to!r:.20}"
    return change


def without(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    change.__name__ = f"without {'.'.join(map(str, path))}"
    return change


PROBLEMS: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (changed("tokenyard", to=2), "manifest version 2, this tokenyard reads 1; use the release that wrote it"),
    (changed("format", to=5), "format: expected str, found 5"),
    (without("schema"), "schema: expected dict, found None"),
    (changed("schema", "token_dtype", to="float32"), "schema: token_dtype 'float32' is not an integer type"),
    (changed("schema", "fields", "mask", to=3), "schema: field 'mask': a field's type is a string"),
    (changed("schema", "colour", to=3), "schema: unknown schema keys colour"),
    (changed("layout", "kind", to="stacked"), "layout.kind: expected documents or packed, found 'stacked'"),
    (changed("layout", "seq_len", to=0), "layout.seq_len: expected a whole number from 1 on, found 0"),
    (changed("layout", "seq_len", to=None), "layout.seq_len: expected a whole number from 1 on, found None"),
    (changed("layout", "lengths_field", to="absent"), "layout.lengths_field is 'absent', but the schema's fields are"),
    (
        changed("layout", "lengths_field", to=[1]),
        r"layout.lengths_field: expected the name of a field or null, found \[1\]",
    ),
    (changed("layout", "pad_token_id", to=-1), "layout.pad_token_id: expected a token id or null, found -1"),
    (changed("layout", "colour", to=1), "layout: .*unexpected keyword argument 'colour'"),
    (changed("shards", to={}), "shards: expected list, found {}"),
    (changed("shards", 1, to="text"), r"shards\[1\]: "),
    (changed("shards", 1, to=None), r"shards\[1\]: "),
    (without("shards", 1, "rows"), r"shards\[1\]: 'rows' is missing"),
    (changed("shards", 1, "rows", to=-1), r"shards\[1\]: a shard needs files and counts from 0 on, found -1 rows"),
    (changed("shards", 1, "rows", to=True), r"shards\[1\]: a shard needs files and counts from 0 on, found True rows"),
    (changed("shards", 1, "tokens", to=2**63), r"shards\[1\]: a shard needs files and counts from 0 on"),
    (changed("shards", 1, "tokens", to="1"), r"shards\[1\]: a shard needs files and counts from 0 on"),
    (changed("shards", 1, "files", to=[]), r"shards\[1\]: a shard needs files"),
    (changed("shards", 1, "files", to=[["a.npy"]]), r"shards\[1\]: not enough values to unpack"),
    (changed("shards", 0, "index", 0, to="notes.txt"), r"shards\[0\]: its index 'notes.txt' is not under .tokenyard/"),
    (
        changed("shards", 1, "files", to=[["a.npy", 2**62, None], ["b.npy", 2**62, None]]),
        r"shards\[1\]: its files have 9223372036854775808 bytes together, more than 63 bits hold",
    ),
    (
        changed("shards", 0, "rows", to=2**63 - 1),
        r"rows: the shards sum to 9223372036854775\d+, more than 63 bits hold",
    ),
    (changed("shards", 1, "files", 0, 0, to="\ud800"), r"shards\[1\]: file name '\\ud800' can't be a file's"),
    (changed("shards", 1, "files", 0, 0, to="a" * 256), r"shards\[1\]: file name 'a+ of 256 bytes is longer than"),
    (changed("schema", "fields", to={"\ud800": "int8"}), r"schema: field '\\ud800': a name is Unicode text"),
    (changed("shards", 1, "meta", to=[1]), r"shards\[1\]: meta: expected dict, found \[1\]"),
    (changed("shards", 1, "files", 0, 1, to=-5), r"shards\[1\]: size of 'sub/shard-00001.npy' is -5"),
    (changed("shards", 1, "files", 0, 1, to=1.5), r"shards\[1\]: size of 'sub/shard-00001.npy' is 1.5"),
    (changed("shards", 1, "files", 0, 2, to=5), r"shards\[1\]: checksum of 'sub/shard-00001.npy' is 5"),
    (changed("shards", 1, "files", 0, 0, to="../x"), r"shards\[1\]: file name '../x' is not a plain relative path"),
    (
        changed("shards", 0, "index", 0, to="/etc/passwd"),
        r"shards\[0\]: file name '/etc/passwd' is not a plain relative",
    ),
    (changed("files", to={}), "files: expected list, found {}"),
    (changed("files", to=None), "files: expected list, found None"),
    (changed("files", 0, to=["a"]), r"files\[0\]: not enough values to unpack"),
    (changed("files", 0, to=None), r"files\[0\]: "),
    (changed("files", 0, 0, to="../x"), r"files\[0\]: file name '../x' is not a plain relative path"),
    (changed("files", 0, 1, to=-5), r"files\[0\]: size of 'index.json' is -5"),
    (changed("digest", to="ty1:5"), "digest: expected 'ty1:' and 64 hexadecimal digits, found 'ty1:5'"),
    (changed("digest", to=5), "digest: expected 'ty1:' and 64 hexadecimal digits, found 5"),
    (changed("field_digests", to=[1]), r"field_digests: expected digests by field, found \[1\]"),
    (changed("field_digests", "mask", to="x"), "field_digests: expected digests by field"),
    (
        without("field_digests", "mask"),
        "field_digests: of .*'doc_id', 'source', 'spans'.*, but the fields are .*'mask'",
    ),
    (changed("rows", to=7), "rows is 7, but the shards sum to 6"),
    (changed("tokens", to=None), "tokens is None, but the shards sum to 51"),
    (changed("provenance", to=None), "provenance: expected dict, found None"),
    (without("meta"), "meta: expected dict, found None"),
]


@pytest.mark.parametrize(("change", "message"), PROBLEMS, ids=[c.__name__ for c, _ in PROBLEMS])
def test_what_is_wrong_is_named_with_its_place(change: Callable[[dict[str, Any]], None], message: str) -> None:
    data = as_json()
    change(data)
    with pytest.raises(DataError, match=f"^corpus/manifest.json: .*{message}"):
        read(data)


def test_every_problem_is_told_at_once() -> None:
    data = as_json()
    for change in (
        changed("format", to=None),
        changed("schema", "vocab_size", to=-1),
        changed("files", 0, 1, to=-1),
        changed("schema", "eos_token_id", to=-1),
        changed("layout", "kind", to="x"),
        changed("layout", "seq_len", to=0),
        changed("shards", 0, "rows", to=-1),
        changed("shards", 1, "files", 0, 0, to=".."),
        changed("digest", to="x"),
        changed("field_digests", to="x"),
        changed("provenance", to="x"),
        changed("meta", to="x"),
    ):
        change(data)
    with pytest.raises(DataError) as caught:
        read(data)
    parts = [
        "format",
        "vocab_size",
        "eos_token_id",
        "layout.kind",
        "layout.seq_len",
        "shards[0]",
        "shards[1]",
        "files[0]",
    ]
    for part in [*parts, "digest:", "field_digests:", "provenance", "meta"]:
        assert part in str(caught.value), part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b'{"tokenyard": 1', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "expected a JSON object, found list"),
        (b"null", "expected a JSON object, found NoneType"),
        (b"{}", "manifest version None"),
    ],
    ids=lambda case: repr(case)[:20],
)
def test_text_that_is_no_manifest_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"corpus/manifest.json: {message}"):
        Manifest.from_json(text, "corpus/manifest.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data(), value=JSON)
def test_any_value_in_any_place_is_read_or_refused_in_our_words(data: st.DataObject, value: Any) -> None:
    whole = as_json()
    place: Any = whole
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = copy.deepcopy(value)
    try:
        found = read(whole)
    except DataError as e:
        error: str | None = str(e)
    else:
        error = None
        assert Manifest.from_json(found.to_json(), "") == found
    assert error is None or error.startswith("corpus/manifest.json: ")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "a/../b",
        "../a",
        "a//b",
        "a/",
        "./a",
        "a\\b",
        "..\\a",
        "a\0b",
        "C:\\x",
        None,
        5,
        ["a"],
    ],
)
def test_a_name_that_could_lead_outside_is_refused(name: Any) -> None:
    with pytest.raises(DataError, match="is not a plain relative path; it would lead outside the corpus"):
        check_name(name)


@pytest.mark.parametrize(
    "name", ["a", "a.npy", "a/b/c.npy", "..a", "a..", ".tokenyard/index/x.idx", "naïve 漢字.npy", "a b"]
)
def test_a_plain_relative_name_is_fine(name: str) -> None:
    check_name(name)


def test_a_layout_that_could_not_be_read_again_is_refused_when_it_is_made() -> None:
    with pytest.raises(
        SchemaError, match=r"layout.kind: expected documents or packed, found 'x'; layout.seq_len: expected"
    ):
        Layout(kind="x", seq_len=-1)
    with pytest.raises(SchemaError, match=r"layout.lengths_field is 'absent', but the schema's fields are none"):
        Layout(lengths_field="absent").check(Schema())
    Layout(lengths_field="mask").check(Schema(fields={"mask": "uint8[]"}))


TEXT = st.text(max_size=8)
FILES = st.builds(
    FileInfo,
    name=st.from_regex(r"(\.?[a-z0-9é_ -]{1,5}/){0,2}[a-z0-9é,{} -]{1,5}\.[a-z]{3}", fullmatch=True),
    bytes=st.integers(0, 2**63 - 1),
    checksum=st.none() | TEXT,
)
INDEXES = FILES.map(lambda file: replace(file, name=f".tokenyard/{file.name}"))
SHARDS = st.builds(
    ShardInfo,
    # A shard of more bytes than 63 bits hold is refused when it is read.
    files=st.lists(FILES, min_size=1, max_size=3).filter(lambda files: sum(f.bytes for f in files) < 2**63).map(tuple),
    num_rows=st.integers(0, 2**40),
    num_tokens=st.integers(0, 2**40),
    index=st.none() | INDEXES,
    meta=st.dictionaries(TEXT, st.none() | TEXT | st.integers() | st.floats(allow_nan=False) | st.lists(TEXT)),
)


@given(st.lists(SHARDS, max_size=5))
def test_shards_read_line_by_line_are_those_of_the_whole_json(shards: list[ShardInfo]) -> None:
    text = Manifest(format="npy", schema=Schema(), shards=tuple(shards)).to_json()
    by_line, whole = Manifest.from_json(text, ""), Manifest.from_json(json.dumps(json.loads(text)), "")
    assert isinstance(by_line.shards, ShardLines) == bool(shards)
    assert isinstance(whole.shards, tuple)
    assert by_line == whole == copy.deepcopy(by_line)
    assert list(by_line.shards) == shards == [by_line.shards[i] for i in range(-len(shards), 0)]
    assert by_line.shards[1:3] == tuple(shards[1:3])
    assert by_line.rows_of_shards.tolist() == [s.num_rows for s in shards] == whole.rows_of_shards.tolist()
    assert by_line.tokens_of_shards.tolist() == [s.num_tokens for s in shards] == whole.tokens_of_shards.tolist()
    assert by_line.to_json() == text
    with pytest.raises(IndexError):
        by_line.shards[len(shards)]


def test_shards_differ_from_others_and_from_fewer() -> None:
    shards = Manifest.from_json(manifest().to_json(), "").shards
    assert shards == manifest().shards
    assert shards != manifest().shards[:1]
    assert shards != manifest().shards[::-1]
    assert shards != 2


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"rows": 2', '"rows": -2', r"shards\[1\]: a shard needs files and counts"),
        ('"rows": 2', '"rows": 3', "rows is 6, but the shards sum to 7"),
        ('"rows": 2', '"rows": 2, "more": [', "not valid JSON"),
        ('"rows": 2, ', "", r"shards\[1\]: 'rows' is missing"),
        ("sub/shard-00001", "../shard-00001", r"shards\[1\]: file name '../shard-00001.npy' is not a plain"),
        ("},\n    {", "}\n    {", "not valid JSON"),
        ('"format"', "format", "not valid JSON"),
        ('"format": "npy"', '"format": 5', "format: expected str, found 5"),
    ],
)
def test_damage_in_one_line_is_told_as_in_any_json(old: str, new: str, told: str) -> None:
    text = manifest().to_json()
    assert text.count(old) >= 1
    with pytest.raises(DataError, match=told):
        Manifest.from_json(text.replace(old, new, 1), "corpus/manifest.json")


def test_two_shards_on_a_line_are_read_too() -> None:
    text = manifest().to_json().replace("},\n    {", "}, {")
    assert Manifest.from_json(text, "") == manifest()
