"""Parquet files that others made: types, nulls, damage, and files that would take all memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenyard
from tests.formats.read_back import tokens_of
from tokenyard.errors import ConfigError, DataError, SchemaError
from tokenyard.formats import parquet
from tokenyard.formats.parquet import footer as parquet_footer

TOKENS = [[1, 2, 3], [], [120], [5, 6]]


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def open_(path: Any, **options: Any) -> tokenyard.Corpus:
    return tokenyard.open_corpus(path, format="parquet", **options)


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("item", INTEGERS)
def test_lists_of_every_integer_open_in_their_own_type(tmp_path: Path, item: str) -> None:
    file = write(tmp_path / "a.parquet", {"tokens": pa.array(TOKENS, pa.list_(getattr(pa, item)()))})
    corpus = open_(file)
    assert tokens_of(corpus) == TOKENS
    assert corpus[0].dtype == item


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(pa.int32()),
        pa.list_(pa.dictionary(pa.int32(), pa.int64())),
        pa.list_(pa.field("item", pa.int32(), nullable=False)),
    ],
)
def test_other_layouts_of_lists_open(tmp_path: Path, kind: pa.DataType) -> None:
    assert tokens_of(open_(write(tmp_path / "a.parquet", {"tokens": pa.array(TOKENS, kind)}))) == TOKENS


def test_lists_of_fixed_size_open(tmp_path: Path) -> None:
    array = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.uint16(), 2))
    assert tokens_of(open_(write(tmp_path / "a.parquet", {"tokens": array}))) == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_codec_and_page_version_opens(tmp_path: Path, codec: str, version: str) -> None:
    columns = {"input_ids": TOKENS * 50, "source": ["a", None, "", "b"] * 50}
    file = write(tmp_path / "a.parquet", columns, compression=codec, data_page_version=version, row_group_size=64)
    corpus = open_(file)
    assert tokens_of(corpus) == TOKENS * 50
    assert [corpus.row(i)["source"] for i in range(198, 200)] == ["", "b"]


def test_a_folder_of_files_is_one_corpus_with_a_shard_each(tmp_path: Path) -> None:
    write(tmp_path / "data/train-0.parquet", {"tokens": TOKENS})
    write(tmp_path / "data/more/train-1.parquet", {"tokens": [[9]]})
    (tmp_path / "data/README.md").write_text("about")
    corpus = open_(tmp_path / "data")
    assert sorted(tokens_of(corpus)) == sorted([*TOKENS, [9]])
    assert len(corpus.manifest.shards) == 2


def test_other_columns_become_fields(tmp_path: Path) -> None:
    columns = {
        "tokens": TOKENS,
        "text": pa.array(["a", None, "", "\u65e5"], pa.large_string()),
        "kind": pa.array(["x", "y", "x", None]).dictionary_encode(),
        "raw": pa.array([b"\0", b"", None, b"ab"]),
        "hash": pa.array([b"ab", b"cd", b"ef", b"gh"], pa.binary(2)),
        "score": pa.array([0.5, None, -1.0, float("inf")]),
        "half": pa.array(np.array([0.5, 1, 2, 3], np.float16)),
        "seen": pa.array([True, None, False, True]),
        "id": pa.array([2**64 - 1, 0, 1, 2], pa.uint64()),
        "mask": pa.array([[1, 1, 0], [], None, [0, 1]], pa.list_(pa.int8())),
        "flags": pa.array([[True], [], [False, True], []]),
    }
    corpus = open_(write(tmp_path / "a.parquet", columns))
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == {
        "text": "string?",
        "kind": "string?",
        "raw": "bytes?",
        "hash": "bytes?",
        "score": "float64?",
        "half": "float16?",
        "seen": "bool?",
        "id": "uint64?",
        "mask": "int8[]?",
        "flags": "bool[]?",
    }
    found = [corpus.row(i) for i in range(4)]
    assert [r["text"] for r in found] == ["a", None, "", "\u65e5"]
    assert [r["kind"] for r in found] == ["x", "y", "x", None]
    assert [r["raw"] for r in found] == [b"\0", b"", None, b"ab"]
    assert [r["hash"] for r in found] == [b"ab", b"cd", b"ef", b"gh"]
    assert [r["score"] for r in found] == [0.5, None, -1.0, float("inf")]
    assert [r["seen"] for r in found] == [True, None, False, True]
    assert [r["id"] for r in found] == [2**64 - 1, 0, 1, 2]
    assert [None if r["mask"] is None else r["mask"].tolist() for r in found] == [[1, 1, 0], [], None, [0, 1]]
    assert [r["flags"].tolist() for r in found] == [[True], [], [False, True], []]
    assert corpus.gather_rows(np.array([3, 2, 0]), "mask")[0].tolist() == [0, 1, 1, 1, 0]


def test_the_option_fields_keeps_some_columns_or_none(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.parquet", {"tokens": TOKENS, "a": [1, 2, 3, 4], "when": pa.array([0] * 4, pa.timestamp("s"))}
    )
    assert list(open_(file, fields=["a"]).schema.fields) == ["a"]
    assert open_(file, fields=[]).row(2)["tokens"].tolist() == [120]


def test_the_option_tokens_names_the_column(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {"ids": TOKENS, "n": [1, 2, 3, 4]})
    assert tokens_of(open_(file, tokens="ids")) == TOKENS


def test_a_large_row_group_is_walked_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_PIECE_BYTES", 2_000)
    tokens = [list(range(i % 9)) for i in range(3000)]
    columns = {"tokens": tokens, "n": list(range(3000)), "t": [str(i) for i in range(3000)]}
    corpus = open_(write(tmp_path / "a.parquet", columns))
    assert tokens_of(corpus) == tokens
    for start, stop in [(2990, 3000), (5, 2000), (1999, 2400), (10, 20)]:
        found = [r for b in corpus.batches(start, stop) for r in b.fields["n"].values.tolist()]
        assert found == list(range(start, stop))
    assert [b.fields["t"].value(0) for b in corpus.batches(1234, 1235)] == ["1234"]


def test_empty_row_groups_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    table = pa.table({"tokens": pa.array(TOKENS, pa.list_(pa.int32()))})
    with pq.ParquetWriter(file, table.schema) as w:
        for part in (table.slice(0, 0), table.slice(0, 2), table.slice(0, 0), table.slice(2)):
            w.write_table(part)
    corpus = open_(file)
    assert tokens_of(corpus) == TOKENS


def test_a_file_without_rows_opens(tmp_path: Path) -> None:
    corpus = open_(write(tmp_path / "a.parquet", {"tokens": pa.array([], pa.list_(pa.int32()))}))
    assert (len(corpus), corpus.num_tokens) == (0, 0)


# ---- refused ----


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"text": ["a"], "n": [1]}, {}, r"no column 'tokens' or 'input_ids'; its columns are 'text', 'n'.*tokenize"),
        ({"tokens": [[1]]}, {"tokens": "ids"}, r"no column 'ids'; its columns are 'tokens'"),
        ({"tokens": [1]}, {}, r"column 'tokens' is int64, tokens are lists of integers"),
        ({"tokens": [["a"]]}, {}, r"column 'tokens' is list<.*string>, tokens are lists of integers"),
        ({"tokens": [[1.0]]}, {}, r"column 'tokens' is list<.*double>, tokens are lists of integers"),
        ({"tokens": [[[1]]]}, {}, r"column 'tokens' is list<.*list<.*int64>>, tokens are lists of integers"),
        ({"tokens": [[1], None]}, {}, r"row group 0, row 1: a null where the tokens should be"),
        ({"tokens": [[1], [2, None]]}, {}, r"row group 0, row 1: a null among the tokens \(item 1\)"),
        ({"tokens": [[1], [2, -1]]}, {}, r"row group 0, row 1: token id -1 is outside 0 \.\. 4294967295"),
        ({"tokens": [[1], [], [2**32]]}, {}, r"row group 0, row 2: token id 4294967296 is outside"),
        ({"tokens": [[1]], "w": [{"a": 1}]}, {}, r"can't be kept as fields: 'w' \(struct<.*fields"),
        ({"tokens": [[1]], "w": [["a"]]}, {}, r"can't be kept as fields: 'w' \(list<.*string>\)"),
        ({"tokens": [[1]], "w": [[[1]]]}, {}, r"can't be kept as fields: 'w' \(list<.*list<"),
        ({"tokens": [[1]], "w": pa.array([0], pa.timestamp("ns"))}, {}, r"can't be kept as fields: 'w' \(timestamp"),
        ({"tokens": [[1]], "w": pa.nulls(1)}, {}, r"can't be kept as fields: 'w' \(null\)"),
        ({"tokens": [[1]]}, {"fields": ["w"]}, r"no column 'w' to keep as a field; there are none"),
        ({"tokens": [[1]], "ids": [[1]]}, {"tokens": "ids"}, r"'tokens' \(the name is taken"),
        ({"tokens": [[1]]}, {"split": {"length": 2}}, r"option 'split' has no use"),
        ({"tokens": [[1]]}, {"token_dtype": "uint16"}, r"option 'token_dtype' has no use"),
    ],
)
def test_what_is_no_corpus_is_refused_with_the_place_and_the_way_out(
    tmp_path: Path, columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    file = write(tmp_path / "a.parquet", columns)
    with pytest.raises((DataError, ConfigError), match=message):
        open_(file, **options)


def test_nulls_and_rows_are_counted_in_their_row_group(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {"tokens": [[1]] * 25 + [None]}, row_group_size=10)
    with pytest.raises(DataError, match=r"a\.parquet: row group 2, row 5: a null"):
        open_(file)


def test_a_null_inside_a_list_field_is_refused_with_its_row(tmp_path: Path) -> None:
    corpus = open_(write(tmp_path / "a.parquet", {"tokens": TOKENS, "w": [[1], [2], [3, None], []]}))
    with pytest.raises(DataError, match=r"a\.parquet: row group 0, row 2: a null in a list \(item 1\)"):
        corpus.row(2)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    text = pa.array([b"a", b"\xff", b"b", b"c"]).view(pa.string())
    corpus = open_(write(tmp_path / "a.parquet", {"tokens": TOKENS, "t": text}))
    with pytest.raises(DataError, match=r"row group 0, row 0 or after: text that is not UTF-8 .*index 1"):
        corpus.row(0)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.table([pa.array(TOKENS), pa.array(TOKENS)], ["tokens", "tokens"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="two columns are named 'tokens'; rename one"):
        open_(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"tokens": [[1]], "a": ["x"]},
            r"b\.parquet: other columns than a\.parquet: 'a' is string\?, in a\.parquet int64\?",
        ),
        ({"tokens": [[1]]}, r"'a' is only in a\.parquet; keep the ones that all files share"),
        ({"tokens": [[1]], "a": [1], "b": [2]}, r"'b' is only in this file"),
        (
            {"tokens": pa.array([[1]], pa.list_(pa.int32())), "a": [1]},
            r"tokens are int32 in column 'tokens', in a\.parquet int64",
        ),
        ({"input_ids": [[1]], "a": [1]}, r"in column 'input_ids', in a\.parquet int64 in column 'tokens'"),
    ],
)
def test_files_with_other_columns_are_refused_with_the_difference(
    tmp_path: Path, other: dict[str, Any], message: str
) -> None:
    write(tmp_path / "data/a.parquet", {"tokens": [[1]], "a": [1]})
    write(tmp_path / "data/b.parquet", other)
    with pytest.raises(SchemaError, match=message):
        open_(tmp_path / "data")


def test_a_field_is_nullable_when_it_is_in_one_of_the_files(tmp_path: Path) -> None:
    write(tmp_path / "data/b.parquet", {"tokens": [[1]], "a": [None, 1][1:]})
    schema = pa.schema([("tokens", pa.list_(pa.int64())), pa.field("a", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"tokens": [[1]], "a": [1]}, schema=schema), tmp_path / "data/a.parquet")
    assert str(open_(tmp_path / "data").schema.fields["a"]) == "int64?"
    assert str(open_(tmp_path / "data/a.parquet").schema.fields["a"]) == "int64"


def test_partition_folders_are_refused_unless_the_fields_are_chosen(tmp_path: Path) -> None:
    write(tmp_path / "data/lang=de/a.parquet", {"tokens": [[1]]})
    write(tmp_path / "data/lang=en/a.parquet", {"tokens": [[2]]})
    with pytest.raises(DataError, match=r"partitioned by lang: .*would be lost.*fields"):
        open_(tmp_path / "data")
    assert tokens_of(open_(tmp_path / "data", fields=[])) == [[1], [2]]


def test_a_delta_table_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "data/part-0.parquet", {"tokens": [[1]]})
    (tmp_path / "data/_delta_log").mkdir()
    (tmp_path / "data/_delta_log/00000000000000000000.json").write_text("{}")
    with pytest.raises(DataError, match="a Delta table, whose log says which of its files and rows still count"):
        open_(tmp_path / "data")


# ---- damaged ----


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"does not end as a Parquet file does \(0 bytes\)"),
        (b"PAR1", r"does not end as a Parquet file does"),
        (b"hello, this is text", r"does not end as a Parquet file does \(19 bytes\); it was cut, or is none"),
        (b"PAR1" + b"\0" * 20 + b"\x08\0\0\0PARE", "an encrypted Parquet file"),
        (b"PAR1" + b"\0" * 20 + b"\xff\0\0\0PAR1", "its footer would have 255 bytes"),
        (b"PAR1" + b"\xff" * 20 + b"\x08\0\0\0PAR1", "unreadable Parquet footer"),
        (b"PAR1" + b"\x19\xf9" * 400 + b"\x20\x03\0\0PAR1", "unreadable Parquet footer"),
    ],
)
def test_what_is_no_parquet_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet: .*" + message):
        open_(tmp_path / "a.parquet")


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {"tokens": TOKENS * 100})
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match="it was cut, or is none"):
        open_(file)


def test_a_footer_that_counts_other_rows_than_its_row_groups_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {"tokens": [[1]] * 6})
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.index(b"\x16\x0c", footer)  # num_rows, field 3 of the footer: 6, zigzag
    file.write_bytes(data[: at + 1] + b"\0" + data[at + 2 :])
    assert pq.read_metadata(file).num_rows == 0
    with pytest.raises(DataError, match=r"a\.parquet: its footer says 0 rows, its row groups 6"):
        open_(file)


def test_a_wrong_checksum_is_refused_even_where_the_page_reads_fine(tmp_path: Path) -> None:
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    file = write(tmp_path / "a.parquet", {"tokens": [list(range(1000, 1100))]}, **options)
    data = file.read_bytes()
    at = data.index((1050).to_bytes(8, "little"))
    file.write_bytes(data[:at] + b"\x07" + data[at + 1 :])
    assert pq.read_table(file)["tokens"][0].as_py() != list(range(1000, 1100))
    with pytest.raises(DataError, match=r"row group 0 can't be decoded .*CRC checksum"):
        open_(file)


def test_a_column_that_would_take_all_memory_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_footer, "_SUSPECT_BYTES", 1 << 20)
    file = write(tmp_path / "a.parquet", {"tokens": [[0] * 1_000_000]}, compression="zstd")
    with pytest.raises(DataError, match=r"row group 0, column 'tokens': 1000000 values of \d+ bytes out of \d+ bytes"):
        open_(file)


def test_rows_of_padding_are_no_suspects(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {"tokens": [[0] * 2048] * 500}, compression="zstd")
    assert open_(file).num_tokens == 500 * 2048


MUTATE = """
import random, sys
import pyarrow as pa, pyarrow.parquet as pq, tokenyard
file, rounds = sys.argv[1], int(sys.argv[2])
random = random.Random(0)
table = pa.table({"tokens": [list(range(i % 7)) for i in range(200)], "s": [None, "a", "b", ""] * 50, "f": [0.5] * 200})
outcomes = {"read": 0, "refused": 0}
for options in ({"compression": "zstd"}, {"compression": "none", "data_page_version": "2.0"}):
    pq.write_table(table, file, row_group_size=90, **options)
    good = open(file, "rb").read()
    for _ in range(rounds):
        data = bytearray(good)
        for _ in range(random.choice((1, 2, 8))):
            data[random.randrange(4, len(data) - 8)] = random.choice((0, 127, 128, 255, random.randrange(256)))
        open(file, "wb").write(data)
        try:
            for batch in tokenyard.open_corpus(file, format="parquet").batches():
                pass
            outcomes["read"] += 1
        except tokenyard.TokenyardError as e:
            assert file in str(e), e
            outcomes["refused"] += 1
print(outcomes)
"""


def test_damage_anywhere_is_an_error_that_names_the_file_and_never_ends_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MUTATE, str(tmp_path / "a.parquet"), "150"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "'refused': 0" not in done.stdout
