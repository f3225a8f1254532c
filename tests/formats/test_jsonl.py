"""JSONL: the layout of our own lines, and lines that others wrote."""

import gc
import gzip
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import tokenyard
from tests.formats import all_types
from tests.formats.read_back import column, tokens_of
from tokenyard.errors import ConfigError, DataError
from tokenyard.formats.shared import text
from tokenyard.rows import RowBatch, offsets_of
from tokenyard.schema import Schema


def write_lines(path: Path, lines: list[str] | str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(lines, list):
        lines = "".join(line + "\n" for line in lines)
    path.write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    return path


def open_(path: Any, **options: Any) -> tokenyard.Corpus:
    return tokenyard.open_corpus(path, format="jsonl", **options)


# ---- our own ----


def write_own(path: Path, **options: Any) -> tokenyard.Corpus:
    with tokenyard.CorpusWriter(path, format="jsonl", schema=all_types.schema(), **options) as w:
        w.write_batch(all_types.rows())
    return tokenyard.open_corpus(path)


def test_a_line_is_strict_json_with_the_tokens_first_and_the_fields_by_name(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    write_own(tmp_path / "c")
    lines = (tmp_path / "c/shard-00000.jsonl").read_text().split("\n")
    assert lines.pop() == ""
    found = [json.loads(line, parse_constant=refuse) for line in lines]
    assert list(found[0]) == ["tokens", *sorted(all_types.values())]
    assert [row["tokens"] for row in found] == all_types.TOKENS
    assert [row["text"] for row in found] == all_types.TEXTS
    assert found[1]["raw"] == "AP8KLCI="
    assert found[1]["maybe_text"] is None
    assert found[1]["one_uint64"] == 2**64 - 1
    assert [row["one_float32"] for row in found[:8]] == [
        0.10000000149011612, -0.0, 1.0, 9.999999747378752e-05, 3.25, "NaN", "Infinity", "-Infinity",
    ]  # fmt: skip


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_every_value_comes_back(tmp_path: Path, compression: str) -> None:
    corpus = write_own(tmp_path / "c", shard_bytes=1_500, compression=compression)
    assert len(corpus.manifest.shards) > 1
    assert all_types.read(corpus) == all_types.expected()


@pytest.mark.parametrize(("compression", "suffix"), [("gzip", ".jsonl.gz"), ("zstd", ".jsonl.zst")])
def test_compressed_blocks_are_one_stream_to_others(
    tmp_path: Path, compression: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_ROWS", 4)
    write_own(tmp_path / "c", compression=compression)
    write_own(tmp_path / "plain")
    with open(tmp_path / f"c/shard-00000{suffix}", "rb") as f:
        if compression == "gzip":
            whole = gzip.decompress(f.read())
        else:
            whole = zstandard.ZstdDecompressor().stream_reader(f, read_across_frames=True).read()
    assert whole == (tmp_path / "plain/shard-00000.jsonl").read_bytes()


def test_a_block_is_read_alone(tmp_path: Path) -> None:
    batch = RowBatch(tokens=np.arange(5000, dtype=np.uint16), offsets=offsets_of([1] * 5000))
    with tokenyard.CorpusWriter(tmp_path / "c", format="jsonl", schema=Schema(token_dtype="uint16")) as w:
        w.write_batch(batch)
    shard = tmp_path / "c/shard-00000.jsonl"
    data = shard.read_bytes()
    shard.write_bytes(b"?" * 2_000 + data[2_000:])
    corpus = tokenyard.open_corpus(tmp_path / "c")
    assert corpus[4999].tolist() == [4999]
    with pytest.raises(DataError, match=r"shard-00000\.jsonl: row 0: .* on the line"):
        corpus[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'{"tokens":[65535]', b'{"tokens":[65536]', r"row 2: token id 65536 does not fit uint16"),
        (b'{"tokens":[65535]', b'{"tokens":[65,35]', r"rows 0 \.\. 11 are not as many, or not as long"),
        (b'{"tokens":[65535]', b'{"tokenz":[65535]', r"row 2: no key 'tokens'"),
        (b'"loss_mask":[1,0,1]', b'"loss_musk":[1,0,1]', r"row 0: a key 'loss_musk' that"),
        (b'"one_uint8":255', b'"one_uint8":256', r"row 1: 'one_uint8' does not fit uint8"),
        (b'"one_bool":false', b'"one_bool":12345', r"row 1: 'one_bool' is 12345, expected bool"),
        (b'"one_float64":"NaN"', b'"one_float64":"NaM"', r"row 5: 'one_float64' holds the text 'NaM'"),
        (b'"raw":"AP8KLCI="', b'"raw":"AP8KLC.="', r"row 1: 'raw' is 'AP8KLC\.=', which is no bytes"),
        (b'"text":"plain"', b'"text":null   ', r"row 0: no 'text', which is declared string"),
    ],
)
def test_a_changed_line_is_refused_with_its_row(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    write_own(tmp_path / "c")
    shard = tmp_path / "c/shard-00000.jsonl"
    data = shard.read_bytes()
    assert old in data
    assert len(old) == len(new)
    shard.write_bytes(data.replace(old, new, 1))
    with pytest.raises(DataError, match=r"shard-00000\.jsonl: " + message):
        list(tokenyard.open_corpus(tmp_path / "c").batches())


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_damaged_compressed_block_is_refused(tmp_path: Path, compression: str) -> None:
    corpus = write_own(tmp_path / "c", compression=compression)
    shard = corpus.folder.path / corpus.manifest.shards[0].name
    data = shard.read_bytes()
    shard.write_bytes(data[:100] + bytes(b ^ 0xFF for b in data[100:140]) + data[140:])
    with pytest.raises(DataError, match=r"shard-00000\.jsonl\.\w+: (bytes 0 \.\. \d+ can't be decompressed|row)"):
        tokenyard.open_corpus(tmp_path / "c")[0]


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'none', 'gzip' or 'zstd'"):
        tokenyard.CorpusWriter(tmp_path / "c", format="jsonl", schema=Schema(), compression="xz")


# ---- other people's ----


def test_keys_become_fields_that_allow_nulls(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "a.jsonl",
        [
            '{"input_ids": [1, 2], "text": "a \\u65e5", "n": 1, "x": 1, "seen": true, "mask": [1, 0], "w": []}',
            '{"w": [0.5, 1], "input_ids": [], "text": null, "n": -9223372036854775808, "x": 0.5, "u": 1}',
            '{"input_ids":[4294967295],"n":9223372036854775807,"x":NaN,"mask":[],"u":18446744073709551615}',
        ],
    )
    corpus = open_(file)
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == {
        "text": "string?",
        "n": "int64?",
        "x": "float64?",
        "seen": "bool?",
        "mask": "int64[]?",
        "w": "float64[]?",
        "u": "uint64?",
    }
    assert corpus.schema.token_dtype == "uint32"
    assert tokens_of(corpus) == [[1, 2], [], [4294967295]]
    assert column(corpus, "text") == ["a \u65e5", None, None]
    assert column(corpus, "n") == [1, -(2**63), 2**63 - 1]
    assert repr(column(corpus, "x")) == "[1.0, 0.5, nan]"
    assert column(corpus, "seen") == [True, None, None]
    assert [None if v is None else v.tolist() for v in column(corpus, "mask")] == [[1, 0], None, []]
    assert column(corpus, "u") == [None, 1, 2**64 - 1]


@pytest.mark.parametrize(
    "lines",
    [
        b'\xef\xbb\xbf{"tokens": [1, 2]}\n{"tokens": []}\n{"tokens": [3]}\n',
        b'{"tokens": [1, 2]}\r\n{"tokens": []}\r\n{"tokens": [3]}\r\n',
        b'{"tokens": [1, 2]}\n{"tokens": []}\n{"tokens": [3]}',
        b'\n\n{"tokens": [1, 2]}\n   \n{"tokens": []}\n\r\n{"tokens": [3]}\n\n',
        b'{ "tokens" :\t[ 1 ,2 ] }\n{"tokens":[ ]}\n  {"tokens":[3 ]}  \n',
        b'{"toke\\u006es": [1, 2]}\n{"tokens": []}\n{"tokens": [3]}\n',
        b'{"n": {"tokens": [9]}, "tokens": [1, 2]}\n{"n": {"tokens": [9]}, "tokens": []}\n{"tokens": [3]}\n',
        b'{"n": "\\"tokens\\": [9]", "tokens": [1, 2]}\n{"tokens": [], "n": "tokens"}\n{"tokens": [3]}\n',
        b'{"tokens": [1, 2]}\n{"n": {"tokens": [9]}, "toke\\u006es": []}\n{"tokens": [3]}\n',
        b'{"tokens": [1, 2]}\n{"\\"tokens": [9], "toke\\u006es": []}\n{"tokens": [3]}\n',
    ],
    ids=[
        "byte order mark",
        "CRLF",
        "no last newline",
        "blank lines",
        "spaces",
        "escaped key",
        "nested key",
        "text",
        "escaped key after a nested one",
        "escaped key after one that ends with its name",
    ],
)
def test_lines_of_any_look_give_the_same_rows(tmp_path: Path, lines: bytes) -> None:
    assert tokens_of(open_(write_lines(tmp_path / "a.jsonl", lines), fields=[])) == [[1, 2], [], [3]]


def test_rows_of_many_blocks_are_found_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_ROWS", 100)
    lines = [f'{{"tokens": {list(range(i % 5))}, "n": {i}}}' + ("\n \n" if i % 7 == 0 else "") for i in range(1050)]
    corpus = open_(write_lines(tmp_path / "a.jsonl", lines))
    assert tokens_of(corpus) == [list(range(i % 5)) for i in range(1050)]
    assert column(corpus, "n")[::50] == list(range(0, 1050, 50))
    assert [r for b in corpus.batches(333, 777) for r in b.fields["n"].values.tolist()] == list(range(333, 777))


@pytest.mark.parametrize(
    ("names", "found"), [(["a.json"], 1), (["a.json", "README.md"], 1), (["b.ndjson", "a.json"], 2)]
)
def test_json_files_are_rows_when_a_folder_has_nothing_else(tmp_path: Path, names: list[str], found: int) -> None:
    for i, name in enumerate(names, 1):
        write_lines(tmp_path / "data" / name, [f'{{"tokens": [{i}]}}'] if "json" in name else ["about"])
    corpus = open_(tmp_path / "data")
    assert [s.name for s in corpus.manifest.shards] == (["a.json"] if found == 1 else ["b.ndjson"])


LISTS = r"expected a list of token ids"
IDS = r"token ids are whole numbers 0 \.\. 4294967295"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tokens": [1, 2.0]}', r"line 3: 'tokens'\[1\] is 2\.0; " + IDS),
        ('{"tokens": [1e3]}', r"line 3: 'tokens'\[0\] is 1000\.0; " + IDS),
        ('{"tokens": [true]}', r"line 3: 'tokens'\[0\] is true; " + IDS),
        ('{"tokens": [[1]]}', r"line 3: 'tokens'\[0\] is \[1\]; " + IDS),
        ('{"tokens": ["1"]}', r"line 3: 'tokens'\[0\] is \"1\"; " + IDS),
        ('{"tokens": [1, null]}', r"line 3: 'tokens'\[1\] is null; " + IDS),
        ('{"tokens": [1, -1]}', r"line 3: 'tokens'\[1\] is -1; " + IDS),
        ('{"tokens": [4294967296]}', r"line 3: 'tokens'\[0\] is 4294967296; " + IDS),
        ('{"tokens": [99999999999999999999]}', r"line 3: 'tokens'\[0\] is 99999999999999999999; " + IDS),
        ('{"tokens": null}', r"line 3: 'tokens' is null, " + LISTS),
        ('{"tokens": "1 2"}', r"line 3: 'tokens' is str '1 2', " + LISTS),
        ('{"tokens": 7}', r"line 3: 'tokens' is int 7, " + LISTS),
        ('{"n": 1}', r"line 3: no key 'tokens'; it has 'n'\. Every row needs its tokens"),
        ('{"tokens": [1], "tokens": [2]}', r"line 3: an object with the key 'tokens' twice"),
        ('{"tokens": [1], "n": 1, "n": 2}', r"line 3: an object with the key 'n' twice"),
        (
            '{"n": {"tokens": [9]}, "tokens": [-9007199254740993]}',
            r"line 3: 'tokens'\[0\] is -9007199254740993; " + IDS,
        ),
        (
            '{"n": {"tokens": [9]}, "toke\\u006es": [-9007199254740993]}',
            r"line 3: 'tokens'\[0\] is -9007199254740993; " + IDS,
        ),
        ('{"tokens": [1, 2, 3], "n": }', r"line 3: no whole JSON object \(Expecting value, character 27\)"),
        ('{"tokens": [01]}', r"line 3: no whole JSON object \(.*\) on the line"),
        ('{"tokens": [1,]}', r"line 3: no whole JSON object"),
        ('{"tokens": [1 2]}', r"line 3: no whole JSON object"),
        ('{"tokens": [1]', r"line 3: no whole JSON object"),
        (
            '{"tokens": [1]} {"tokens": [2]}',
            r"line 3: more than one value on the line; a row is one JSON object on one",
        ),
        ('{"tokens": [1]}\r{"tokens": [2]}', r"line 3: more than one value on the line"),
        ("[[1, 2]]", r"line 3: a JSON array, not an object; 'jq -c \.\[\]'"),
        ("7", r"line 3: 7, not an object"),
        ('{"tokens": [1], "extra": 1}', r"line 3: a key 'extra' that the first lines don't have.*'fields'"),
        ('{"tokens": [1], "n": "text"}', r"line 3: 'n' is \"text\", expected int64\?"),
        ('{"tokens": [1], "n": 1.5}', r"line 3: 'n' is 1\.5, expected int64\?"),
        ('{"tokens": [1], "n": true}', r"line 3: 'n' is true, expected int64\?"),
        ('{"tokens": [1], "n": 9223372036854775808}', r"line 3: 'n' does not fit int64\?"),
        ('{"tokens": [1], "m": [1, "a"]}', r"line 3: 'm' is \[1, \"a\"\], expected int64\[\]\?"),
        ('{"tokens": [1], "m": [9223372036854775808]}', r"line 3: 'm' does not fit int64\[\]\?"),
        ('{"tokens": [1], "t": "\\ud800"}', r"line 3: 't' is .*which is no string"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(
    tmp_path: Path, line: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenyard.formats.jsonl._SAMPLE_BYTES", 1)  # only the first line tells the types
    good = '{"tokens": [1, 2], "n": 1, "m": [1], "t": "a"}'
    file = write_lines(tmp_path / "a.jsonl", [good, "", line])
    with pytest.raises(DataError, match=r"a\.jsonl: " + message):
        open_(file)


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", b'{"tokens": [1]}\n{"tokens": [1], "t": "\xff"}\n')
    with pytest.raises(DataError, match=r"line 2: 'utf-8' codec can't decode"):
        open_(file)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[\n{"tokens": [1]}\n]\n', r"line 1: a JSON array, not an object"),
        (b'{\n  "tokens": [1]\n}\n', r"line 1: no whole JSON object .*a row is one JSON object on one line"),
        ('{"tokens": [1]}\n'.encode("utf-16"), "UTF-16"),
        (b"", "no rows in it"),
        (b"\n \n", "no rows in it"),
        (
            b'{"text": "a", "id": 1}\n',
            r"no key 'tokens' or 'input_ids'; its keys are 'text', 'id'.*'tokenyard tokenize'",
        ),
        (
            b'{"tokens": [1], "meta": {"a": 1}}\n',
            r"keys that can't be kept as fields: 'meta' \(an object\); .*'fields'",
        ),
        (b'{"tokens": [1], "tags": ["a"]}\n', r"'tags' \(a list of other things\)"),
        (b'{"tokens": [1], "m": [[1]]}\n', r"'m' \(a list of other things\)"),
        (b'{"tokens": [1], "n": null}\n', r"'n' \(always null\)"),
        (b'{"tokens": [1], "n": []}\n', r"'n' \(always an empty list\)"),
        (b'{"tokens": [1], "n": 18446744073709551616}\n', r"'n' \(a number past 64 bits\)"),
        (b'{"tokens": [1], "n": 1}\n{"tokens": [1], "n": "a"}\n', r"'n' \(int64 and string\)"),
        (b'{"tokens": [1], "n": 1}\n{"tokens": [1], "n": true}\n', r"'n' \(bool and int64\)"),
    ],
)
def test_what_is_no_corpus_is_refused_with_the_way_out(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl: .*" + message):
        open_(write_lines(tmp_path / "a.jsonl", data))


def test_a_line_without_end_is_refused_before_it_takes_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "MAX_ROW_BYTES", 1000)
    with pytest.raises(DataError, match=r"a\.jsonl: line 2 has over 1000 bytes; a row is one line, cut it"):
        open_(write_lines(tmp_path / "a.jsonl", ['{"tokens": [1]}', f'{{"tokens": {list(range(500))}}}']))


def test_other_keys_are_left_out_when_the_fields_are_chosen(tmp_path: Path) -> None:
    lines = ['{"tokens": [1], "n": 1, "meta": {"a": 1}}', '{"tokens": [2], "later": [null]}']
    corpus = open_(write_lines(tmp_path / "a.jsonl", lines), fields=["n"])
    assert tokens_of(corpus) == [[1], [2]]
    assert column(corpus, "n") == [1, None]


def test_numbers_that_json_has_none_for_are_read_from_their_texts(tmp_path: Path) -> None:
    lines = [f'{{"tokens": [1], "x": {x}, "w": [{x}, 1.5]}}' for x in ('"NaN"', '"-Infinity"', "0.5")]
    corpus = open_(write_lines(tmp_path / "a.jsonl", lines))
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == {"x": "float64?", "w": "float64[]?"}
    assert repr(column(corpus, "x")) == "[nan, -inf, 0.5]"


def test_a_text_that_happens_to_be_nan_stays_text(tmp_path: Path) -> None:
    corpus = open_(write_lines(tmp_path / "a.jsonl", ['{"tokens": [1], "t": "NaN"}', '{"tokens": [1], "t": "Nancy"}']))
    assert column(corpus, "t") == ["NaN", "Nancy"]


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".json.zst", ".ndjson.bz2"])
def test_compressed_lines_of_others_are_refused_with_the_way_out(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(
        DataError, match=r"compressed, so that no row can be read alone; decompress it.*tokenyard tokenize"
    ):
        open_(write_lines(tmp_path / f"a{suffix}", b"1"))


@pytest.mark.parametrize("options", [{"split": {"length": 2}}, {"token_dtype": "uint16"}])
def test_options_of_other_formats_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="has no use there"):
        open_(write_lines(tmp_path / "a.jsonl", ['{"tokens": [1]}']), **options)


def test_a_file_that_changed_after_it_was_indexed_is_refused(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", ['{"tokens": [1]}', '{"tokens": [2]}'])
    corpus = open_(file)
    file.write_bytes(b'{"tokens": []} \n{"tokens": [2]}\n')
    with pytest.raises(DataError, match=r"rows 0 \.\. 1 are not as many, or not as long, as the index says"):
        corpus[0]
    file.write_bytes(b'{"tokens": [1]}\n')
    with pytest.raises(DataError, match=r"a\.jsonl: ends before byte 32; the shard was cut"):
        corpus[0]


def test_a_block_half_walked_goes_with_its_corpus(tmp_path: Path) -> None:
    corpus = write_own(tmp_path / "c")
    corpus.row(0)
    reader = weakref.ref(corpus._reader(0))
    del corpus
    gc.collect()
    assert reader() is None


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + 400 * "0" + ".5"])
def test_a_number_past_float64_is_refused_and_never_made_infinite(tmp_path: Path, number: str) -> None:
    file = write_lines(tmp_path / "a.jsonl", ['{"tokens": [1], "x": 0.5}', f'{{"tokens": [1], "x": {number}}}'])
    with pytest.raises(DataError, match=r"the number .* is past float64"):
        open_(file)


def test_a_whole_number_past_float64_is_refused_among_floats(tmp_path: Path) -> None:
    lines = ['{"tokens": [1], "x": 0.5}', f'{{"tokens": [1], "x": {10**400}}}']
    with pytest.raises(DataError, match=r"'x'.*past 64 bits"):
        open_(write_lines(tmp_path / "a.jsonl", lines))
