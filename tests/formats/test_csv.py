"""CSV: the layout of our own tables, and tables that others wrote."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenyard
from tests.formats import all_types
from tests.formats.read_back import column, tokens_of
from tokenyard.errors import ConfigError, DataError
from tokenyard.formats.shared import text
from tokenyard.rows import RowBatch, offsets_of
from tokenyard.schema import Schema


def table(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def open_(path: Any, **options: Any) -> tokenyard.Corpus:
    return tokenyard.open_corpus(path, format="csv", **options)


# ---- our own ----


def write_own(path: Path, **options: Any) -> tokenyard.Corpus:
    with tokenyard.CorpusWriter(path, format="csv", schema=all_types.schema(), **options) as w:
        w.write_batch(all_types.rows())
    return tokenyard.open_corpus(path)


def test_the_header_names_row_tokens_fields_and_what_is_valid(tmp_path: Path) -> None:
    fields = {"t": "string", "n": "int64?", "b": "bytes?"}
    with tokenyard.CorpusWriter(tmp_path / "c", format="csv", schema=Schema(token_dtype="uint16", fields=fields)) as w:
        w.write([1, 2], t="a", n=1, b=b"\0")
        w.write([], t="")
        w.write([3], t='say "no",\nplease', n=0, b=b"")
    assert (tmp_path / "c/shard-00000.csv").read_bytes() == (
        b"row,tokens,b,b.valid,n,n.valid,t\n"
        b'0,1 2,AA==,1,1,1,"a"\n'
        b'1,,,0,,0,""\n'
        b'2,3,,1,0,1,"say ""no"",\nplease"\n'
    )  # fmt: skip
    assert column(tokenyard.open_corpus(tmp_path / "c"), "b") == [b"\0", None, b""]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_every_value_comes_back(tmp_path: Path, compression: str) -> None:
    corpus = write_own(tmp_path / "c", shard_bytes=1_500, compression=compression)
    assert len(corpus.manifest.shards) > 1
    assert all_types.read(corpus) == all_types.expected()


def test_the_csv_module_reads_very_long_rows_once_its_limit_allows_them(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    tokens = np.arange(100_000, dtype=np.uint32)
    with tokenyard.CorpusWriter(tmp_path / "c", format="csv", schema=Schema()) as w:
        w.write(tokens)
        w.write([7])
    corpus = tokenyard.open_corpus(tmp_path / "c")
    assert np.array_equal(corpus[0], tokens)
    assert csv.field_size_limit() == limit


def test_rows_are_counted_in_each_shard_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_ROWS", 100)
    batch = RowBatch(tokens=np.arange(1000, dtype=np.uint16), offsets=offsets_of([1] * 1000))
    with tokenyard.CorpusWriter(tmp_path / "c", format="csv", schema=Schema(token_dtype="uint16")) as w:
        w.write_batch(batch)
    lines = (tmp_path / "c/shard-00000.csv").read_text().splitlines()
    assert lines[1:] == [f"{i},{i}" for i in range(1000)]
    corpus = tokenyard.open_corpus(tmp_path / "c")
    assert corpus.gather_rows(np.array([999, 5, 500]))[0].tolist() == [999, 5, 500]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\n2,65535,", b"\n2,65536,", r"row 2: token id 65536 does not fit uint16"),
        (b"\n2,65535,", b"\n2,65 35,", r"rows 0 \.\. 11 are not as many, or not as long"),
        (b"\n2,65535,", b"\n2,655.5,", r"row 2: '655\.5' is no token id"),
        (b"\n2,65535,", b"\n2,,5535,", r"row 2: \d+ cells, the header names \d+"),
        (b"\n2,65535,", b'\n2,65"35,', r"a quote is opened and never closed"),
        (b",false,", b",falsy,", r"row 1: column '\w+' is b'falsy', which is no bool\??"),
        (b",AP8KLCI=,", b",AP8KLC.=,", r"row 1: column '\w+' is b'AP8KLC.=', which is no bytes"),
        (b",-128,", b",-129,", r"row 0: 'one_int8' does not fit int8"),
    ],
)
def test_a_changed_cell_is_refused_with_its_row(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    write_own(tmp_path / "c")
    shard = tmp_path / "c/shard-00000.csv"
    data = shard.read_bytes()
    assert old in data
    assert len(old) == len(new)
    shard.write_bytes(data.replace(old, new, 1))
    with pytest.raises(DataError, match=r"shard-00000\.csv: .*" + message):
        list(tokenyard.open_corpus(tmp_path / "c").batches())


# ---- other people's ----


@pytest.mark.parametrize(
    "data",
    [
        "tokens,source\n1 2 3,a\n,b\n7,c\n",
        "source,tokens\na,1 2 3\nb,\nc,7\n",
        "\ufefftokens,source\r\n1 2 3,a\r\n,b\r\n7,c\r\n",
        "tokens,source\n1 2 3,a\n,b\n7,c",
        '"tokens","source"\n"1 2 3","a"\n"","b"\n"7","c"\n\n\n',
        'tokens,source\n"[1, 2, 3]",a\n[],b\n[7],c\n',
        'tokens,source\n"[1,2,3]",a\n[],b\n"[ 7 ]",c\n',
        "row,tokens,source\n0,1 2 3,a\n1,,b\n2,7,c\n",
        ",tokens,source\n0,1 2 3,a\n1,,b\n2,7,c\n",
        "tokens,source\n 1  2 3 ,a\n,b\n007,c\n",
    ],
    ids=["spaces", "order", "BOM, CRLF", "no end", "quoted", "JSON", "tight JSON", "row", "index", "loose"],
)
def test_tables_of_any_look_give_the_same_rows(tmp_path: Path, data: str) -> None:
    corpus = open_(table(tmp_path / "a.csv", data))
    assert tokens_of(corpus) == [[1, 2, 3], [], [7]]
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == {"source": "string"}
    assert column(corpus, "source") == ["a", "b", "c"]
    assert corpus.schema.token_dtype == "uint32"


def test_quoted_newlines_and_quotes_do_not_break_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_ROWS", 10)
    texts = ['a\n"b"\r\n,c', "", "\n", '""', "plain", ",", " x ", "\r"]
    cells = ['"' + t.replace('"', '""') + '"' for t in texts]
    data = "text,input_ids\n" + "".join(f"{cells[i % 8]},{i} {i}\n" for i in range(200))
    corpus = open_(table(tmp_path / "a.csv", data))
    assert tokens_of(corpus) == [[i, i] for i in range(200)]
    assert column(corpus, "text") == [texts[i % 8] for i in range(200)]


def test_other_columns_are_text_to_the_letter(tmp_path: Path) -> None:
    corpus = open_(table(tmp_path / "a.csv", "tokens,n,t\n1,007, x \n2,1e5,NA\n"))
    assert column(corpus, "n") == ["007", "1e5"]
    assert column(corpus, "t") == [" x ", "NA"]
    assert list(open_(tmp_path / "a.csv", fields=["t"]).schema.fields) == ["t"]


def test_a_corpus_of_ours_without_its_manifest_opens(tmp_path: Path) -> None:
    write_own(tmp_path / "c")
    (tmp_path / "c/.tokenyard/manifest.json").unlink()
    corpus = open_(tmp_path / "c")
    assert tokens_of(corpus) == all_types.TOKENS
    assert column(corpus, "text") == all_types.TEXTS


IDS = r"is no token id; a cell holds whole numbers 0 \.\. 4294967295 apart by spaces, or a JSON list"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1 2.0", r"line 4: '2\.0' " + IDS),
        ("-1", r"line 4: '-1' " + IDS),
        ("4294967296", r"line 4: '4294967296' " + IDS),
        ("99999999999999999999", r"line 4: '99999999999999999999' " + IDS),
        ("1;2", r"line 4: '1;2' " + IDS),
        ("one", r"line 4: 'one' " + IDS),
        ('"[1, 2.0]"', r"line 4: 2\.0 " + IDS),
        ('"[1, true]"', r"line 4: True " + IDS),
        ('"[1, null]"', r"line 4: None " + IDS),
        ('"[[1]]"', r"line 4: \[1\] " + IDS),
        ("[1 2 3]", r"line 4: '\[1 2 3\]' " + IDS),
        ("1,2", r"line 4: 3 cells, the header names 2: tokens, t"),
        ('1 "2"', r"line 4: a quote inside a cell that isn't quoted"),
        ('"1 2', r"line 4: a quote is opened and never closed"),
    ],
)
def test_a_wrong_cell_is_refused_with_its_line(tmp_path: Path, cell: str, message: str) -> None:
    file = table(tmp_path / "a.csv", f'tokens,t\n1,"two\nlines"\n{cell},b\n')
    with pytest.raises(DataError, match=r"a\.csv: " + message):
        open_(file)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no header; the first line names the columns"),
        (b"\n1\n", "no header"),
        (b"text,id\na,1\n", r"no column 'tokens' or 'input_ids'; its columns are 'text', 'id'.*'tokenyard tokenize'"),
        (b"tokens;id\n1;1\n", r"its columns are 'tokens;id'"),
        (b"tokens,a,a\n1,1,1\n", "two columns are named 'a'; rename one"),
        (b'tokens,"a\nb"\n1,1\n', "is no header: names apart by commas"),
        (b"tokens,\xff\n1,1\n", "is no header"),
        (b"tokens,t\n1,\xff\n", r"line 2: column 't' is b'\\xff', which is no string"),
        (b"tokens\n1\n\n2\n", r"line 3 is blank; in a table of one column it could be an empty row or nothing"),
        ("tokens\n1\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_corpus_is_refused_with_the_way_out(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=r"a\.csv: .*" + message):
        open_(table(tmp_path / "a.csv", data))


def test_a_quote_without_end_is_refused_before_it_takes_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenyard.formats.csv.MAX_ROW_BYTES", 1000)
    with pytest.raises(DataError, match=r"a\.csv: line 3: a quote is opened and never closed"):
        open_(table(tmp_path / "a.csv", 'tokens,t\n1,a\n2,"' + "b\n" * 2000 + '"\n'))


def test_a_column_named_tokens_can_be_no_field(tmp_path: Path) -> None:
    file = table(tmp_path / "a.csv", "ids,tokens\n1,1\n")
    with pytest.raises(DataError, match=r"'tokens' \(the name is taken by the tokens themselves\); .*'fields'"):
        open_(file, tokens="ids")
    assert tokens_of(open_(file, tokens="ids", fields=[])) == [[1]]


def test_a_table_of_one_column_keeps_quoted_empty_rows(tmp_path: Path) -> None:
    assert tokens_of(open_(table(tmp_path / "a.csv", 'tokens\n1\n""\n2\n'))) == [[1], [], [2]]


def test_tables_with_other_headers_are_refused_with_the_difference(tmp_path: Path) -> None:
    table(tmp_path / "data/a.csv", "tokens,x\n1,1\n")
    table(tmp_path / "data/b.csv", "tokens,y\n1,1\n")
    with pytest.raises(DataError, match=r"b\.csv: its columns are tokens, y; those of a\.csv are tokens, x"):
        open_(tmp_path / "data")


def test_compressed_tables_of_others_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv\.gz: compressed, so that no row can be read alone"):
        open_(table(tmp_path / "a.csv.gz", b"1"))


@pytest.mark.parametrize("options", [{"split": {"length": 2}}, {"token_dtype": "uint16"}])
def test_options_of_other_formats_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="has no use there"):
        open_(table(tmp_path / "a.csv", "tokens\n1\n"), **options)
