"""Other people's MDS datasets: which column holds the tokens, what the others become, what is refused."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats import mds_by_hand as by_hand
from tokenyard import Corpus, open_corpus
from tokenyard.errors import ConfigError, DataError, TokenyardError
from tokenyard.formats.mds.columns import MdsColumn
from tokenyard.formats.mds.decode import column_runs


def ids(*values: int) -> dict[str, Any]:
    return {"tokens": list(values)}


def all_tokens(corpus: Corpus) -> list[list[int]]:
    return [corpus[i].tolist() for i in range(len(corpus))]


@pytest.mark.parametrize("compression", [None, "zstd", "zstd:7", "gz", "br", "bz2", "snappy"])
def test_datasets_of_others_open_raw_and_compressed(tmp_path: Path, compression: str | None) -> None:
    samples = [ids(*range(n)) for n in (1, 255, 256, 70_000)]
    folder = by_hand.dataset(
        tmp_path / "d", {"tokens": "ndarray:int32"}, samples, shard_rows=3, compression=compression
    )
    corpus = open_corpus(folder)
    assert all_tokens(corpus) == [s["tokens"] for s in samples]
    assert corpus.schema.token_dtype == "int32"
    assert corpus.digest is None


@pytest.mark.parametrize(
    ("encoding", "values", "options"),
    [
        ("ndarray:uint16:3", [[1, 2, 3], [4, 5, 6]], {}),
        ("ndarray:int64", [[1], [2, 3]], {}),
        ("ndarray", [np.array([1, 2], np.uint32), np.array([3], np.uint32)], {}),
        ("bytes", [np.array([1, 2]).tobytes(), b""], {"token_dtype": "int64"}),
        ("bytes", [np.array([1, 2], ">u2").tobytes(), np.array([3], ">u2").tobytes()], {"token_dtype": ">u2"}),
    ],
)
def test_tokens_come_in_every_encoding_of_integer_arrays(
    tmp_path: Path, encoding: str, values: list[Any], options: dict[str, Any]
) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": encoding}, [{"tokens": v} for v in values])
    dtype = options.get("token_dtype", "int64")
    expected = [np.frombuffer(v, dtype).tolist() if isinstance(v, bytes) else np.asarray(v).tolist() for v in values]
    corpus = open_corpus(folder, **options)
    assert all_tokens(corpus) == expected
    assert [b.row(i)["tokens"].tolist() for b in corpus.batches() for i in range(len(b))] == expected


@pytest.mark.parametrize(
    ("columns", "options", "chosen"),
    [
        ({"tokens": "ndarray:int32", "input_ids": "ndarray:int32"}, {}, "tokens"),
        ({"input_ids": "ndarray:int32", "other": "ndarray:int32"}, {}, "input_ids"),
        ({"other": "ndarray:int32", "x": "ndarray:float32", "n": "int"}, {}, "other"),
        ({"tokens": "ndarray:int32", "other": "ndarray:int32"}, {"tokens": "other"}, "other"),
        ({"blob": "bytes", "text": "str"}, {"token_dtype": "int32"}, "blob"),
    ],
)
def test_the_column_of_tokens_is_found(
    tmp_path: Path, columns: dict[str, str], options: dict[str, Any], chosen: str
) -> None:
    values: dict[str, Any] = {"str": "text", "int": 7, "bytes": np.array([9, 9], np.int32).tobytes()}
    sample = {n: values.get(e, [9, 9] if n == chosen else [1]) for n, e in columns.items()}
    corpus = open_corpus(by_hand.dataset(tmp_path / "d", columns, [sample]), **options)
    assert all_tokens(corpus) == [[9, 9]]
    assert set(corpus.schema.fields) == set(columns) - {chosen}


def test_other_columns_become_fields_of_their_own_type(tmp_path: Path) -> None:
    columns = {
        "tokens": "ndarray:uint16", "text": "str", "meta": "json", "n": "int", "small": "int8", "big": "uint64",
        "half": "float16", "double": "float64", "exact": "str_decimal", "digits": "str_int", "float": "str_float",
        "blob": "bytes", "photo": "jpeg", "mask": "ndarray:uint8", "pair": "ndarray:float32:2", "any": "ndarray",
        "text.valid": "uint8",
    }  # fmt: skip
    base: dict[str, Any] = {
        "tokens": [1], "text": "hé", "meta": {"a": 1}, "n": -5, "small": -1, "big": 2**64 - 1, "half": 0.5,
        "double": 1e300, "exact": "0.10", "digits": 10**30, "float": 0.25, "blob": b"\xff", "photo": b"\xff\xd8",
        "mask": [1, 0], "pair": [1.5, 2.5], "any": np.array([3], np.int16), "text.valid": 1,
    }  # fmt: skip
    null = base | {"text": "", "text.valid": 0}
    corpus = open_corpus(by_hand.dataset(tmp_path / "d", columns, [base, null]))
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == {
        "text": "string?", "meta": "string", "n": "int64", "small": "int8", "big": "uint64", "half": "float16",
        "double": "float64", "exact": "string", "digits": "string", "float": "string", "blob": "bytes",
        "photo": "bytes", "mask": "uint8[]", "pair": "float32[]", "any": "int16[]",
    }  # fmt: skip
    found = corpus.row(0)
    expected = base | {"meta": '{"a": 1}', "digits": str(10**30), "float": "0.25"}
    del expected["text.valid"]
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    assert corpus.row(1)["text"] is None
    np.testing.assert_array_equal(corpus.gather_rows(np.array([1, 0]), "pair")[0], [1.5, 2.5, 1.5, 2.5])


def test_fields_that_are_not_named_are_left_out_and_may_then_be_of_any_kind(tmp_path: Path) -> None:
    columns = {
        "tokens": "ndarray:int32",
        "n": "int",
        "obj": "pkl",
        "image": "pil",
        "odd": "something:new",
        "grid": "ndarray:int32:2,2",
    }
    sample = {"tokens": [1, 2], "n": 3, "obj": b"\x80", "image": b"1", "odd": b"2", "grid": np.zeros((2, 2), np.int32)}
    folder = by_hand.dataset(tmp_path / "d", columns, [sample] * 2)
    corpus = open_corpus(folder, fields=["n"])
    assert all_tokens(corpus) == [[1, 2]] * 2
    assert corpus.row(1)["n"] == 3
    assert not open_corpus(folder, fields=[]).schema.fields


def test_a_shard_that_lies_raw_and_compressed_side_by_side_counts_once_and_the_raw_one_is_read(tmp_path: Path) -> None:
    folder = by_hand.dataset(
        tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(1), ids(2)], compression="zstd", keep_raw=True
    )
    corpus = open_corpus(folder)
    assert len(corpus) == 2
    assert [s.name for s in corpus.manifest.shards] == ["shard.00000.mds"]
    assert all_tokens(corpus) == [[1], [2]]
    os.remove(folder / "shard.00000.mds")
    again = open_corpus(folder)
    assert [s.name for s in again.manifest.shards] == ["shard.00000.mds.zstd"]
    assert all_tokens(again) == [[1], [2]]


def test_shards_may_lie_in_folders_that_index_json_names(tmp_path: Path) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(1)])
    (folder / "part").mkdir()
    os.rename(folder / "shard.00000.mds", folder / "part/shard.00000.mds")
    by_hand.edit(folder, raw_data={"basename": "part/shard.00000.mds"})
    assert all_tokens(open_corpus(folder)) == [[1]]
    assert all_tokens(open_corpus(folder / "index.json")) == [[1]]


def test_shards_of_two_token_dtypes_are_one_corpus_of_the_wider(tmp_path: Path) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(1), ids(2)], shard_rows=1)
    data = by_hand.shard({"tokens": "ndarray:uint16"}, [ids(7)])
    (folder / "shard.00000.mds").write_bytes(data)
    by_hand.edit(folder, column_encodings=["ndarray:uint16"], raw_data={"bytes": len(data)})
    corpus = open_corpus(folder)
    assert corpus.schema.token_dtype == "int32"
    assert all_tokens(corpus) == [[7], [2]]
    np.testing.assert_array_equal(corpus.gather_rows(np.array([1, 0]))[0], [2, 7])


@pytest.mark.parametrize(
    ("columns", "sample", "options", "error", "message"),
    [
        (
            {"text": "str", "id": "int"},
            {"text": "a", "id": 1},
            {},
            DataError,
            r"index.json: no column holds token ids, there are id \(int\), text \(str\); name one with tokens=",
        ),
        (
            {"a": "ndarray:int32", "b": "ndarray:int8"},
            {"a": [1], "b": [1]},
            {},
            DataError,
            "a or b could hold the tokens; name one with tokens='a'",
        ),
        (
            {"tokens": "ndarray:float64"},
            {"tokens": [1.0]},
            {},
            DataError,
            "column 'tokens' is ndarray:float64, but token ids are",
        ),
        (
            {"tokens": "str"},
            {"tokens": "1 2"},
            {},
            DataError,
            "shard.00000.mds: column 'tokens' is str, but token ids are",
        ),
        (
            {"tokens": "bytes"},
            {"tokens": b"12"},
            {},
            DataError,
            "'tokens' holds bare bytes; name the dtype of its ids: token_dtype=",
        ),
        (
            {"tokens": "bytes"},
            {"tokens": b"123"},
            {"token_dtype": "uint16"},
            DataError,
            "column 'tokens', row 0: 3 bytes, no whole number of uint16; token_dtype is another",
        ),
        (
            {"tokens": "ndarray:int32"},
            ids(1),
            {"token_dtype": "int64"},
            ConfigError,
            "'tokens' is ndarray:int32, not int64; leave",
        ),
        (
            {"tokens": "ndarray:int32"},
            ids(1),
            {"token_dtype": "float32"},
            ConfigError,
            "'float32' is not an integer type",
        ),
        ({"tokens": "ndarray:int32"}, ids(1), {"token_dtype": "ids"}, ConfigError, "'ids' is not an integer type"),
        (
            {"tokens": "ndarray:int32"},
            ids(1),
            {"tokens": "x"},
            ConfigError,
            r"no column 'x'; there are tokens \(ndarray:int32\)",
        ),
        (
            {"tokens": "ndarray:int32", "n": "int"},
            {"tokens": [1], "n": 1},
            {"fields": ["m"]},
            ConfigError,
            "no column m to keep; fields may name n",
        ),
        (
            {"tokens": "ndarray:int32"},
            ids(1),
            {"split": {"length": 5}},
            ConfigError,
            "'split' cuts one long array, but an MDS sample",
        ),
        (
            {"tokens": "ndarray:int32", "o": "pkl", "n": "int"},
            {"tokens": [1], "o": b"", "n": 1},
            {},
            DataError,
            r"column o holds pickled objects, which tokenyard never unpickles; leave it out with fields=\['n'\]",
        ),
        (
            {"tokens": "pkl"},
            {"tokens": b""},
            {},
            DataError,
            "column 'tokens' holds pickled objects, .*; name another column",
        ),
        (
            {"tokens": "ndarray:int32", "i": "pil"},
            {"tokens": [1], "i": b""},
            {},
            DataError,
            "column i holds the encoding pil, which",
        ),
        (
            {"tokens": "ndarray:int32", "g": "ndarray:int32:1,2"},
            {"tokens": [1], "g": np.ones((1, 2), np.int32)},
            {},
            DataError,
            r"column g holds arrays of shape \(1,2\); a row's value has one dimension; leave it out",
        ),
        (
            {"tokens": "ndarray:int32:1,2"},
            {"tokens": np.ones((1, 2), np.int32)},
            {},
            DataError,
            r"column 'tokens' holds arrays of shape \(1,2\)",
        ),
        (
            {"tokens": "ndarray:int32"},
            {"tokens": np.ones((1, 300), np.int32)},
            {},
            DataError,
            r"column 'tokens', row 0: an array of shape \(1, 300\); a row's value has one dimension: write it flat",
        ),
        (
            {"tokens": "ndarray:complex64"},
            {"tokens": b""},
            {},
            DataError,
            "holds arrays of the unknown dtype complex64",
        ),
        ({"tokens": "ndarray:int32:0"}, {"tokens": b""}, {}, DataError, r"holds arrays of the impossible shape \(0\)"),
        (
            {"tokens": "ndarray"},
            {"tokens": b"\x07\x04\x00"},
            {},
            DataError,
            "row 0: the unknown dtype code 7; the shard is damaged",
        ),
        (
            {"tokens": "ndarray:int32", "t": "str"},
            {"tokens": [1], "t": b"\xff"},
            {},
            DataError,
            r"shard.00000.mds: field 't', row 0: not UTF-8 \(invalid start byte at byte 0\); leave the field out",
        ),
    ],
)
def test_what_can_not_be_read_is_refused_with_its_name_and_the_way_out(
    tmp_path: Path,
    columns: dict[str, str],
    sample: Any,
    options: dict[str, Any],
    error: type[TokenyardError],
    message: str,
) -> None:
    folder = by_hand.dataset(tmp_path / "d", columns, [sample])
    with pytest.raises(error, match=message):
        list(open_corpus(folder, **options).batches())


def test_arrays_that_say_two_dtypes_are_refused_by_the_row(tmp_path: Path) -> None:
    samples = [{"tokens": np.array([1], np.int32)}, {"tokens": np.array([1], np.int64)}]
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray"}, samples)
    with pytest.raises(DataError, match="row 1: int64, the rows before it are int32; a column has one dtype"):
        open_corpus(folder)
    with pytest.raises(
        DataError, match=r"shard.00001.mds: column 'tokens': int64, the first shard has int32; a corpus has"
    ):
        open_corpus(by_hand.dataset(tmp_path / "e", {"tokens": "ndarray"}, samples, shard_rows=1))


def test_shards_of_other_columns_are_refused_by_their_names(tmp_path: Path) -> None:
    folder = by_hand.dataset(
        tmp_path / "d", {"tokens": "ndarray:int32", "n": "int"}, [ids(1) | {"n": 1}] * 2, shard_rows=1
    )
    index = json.loads((folder / "index.json").read_text())
    index["shards"][1]["column_encodings"][0] = "uint64"
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        DataError, match=r"shard.00001.mds has columns n \(uint64\), .*shard.00000.mds has n \(int\).* open them apart"
    ):
        open_corpus(folder)


def test_tokens_that_no_integer_type_holds_together_are_refused(tmp_path: Path) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int64"}, [ids(1)] * 2, shard_rows=1)
    by_hand.edit(folder, column_encodings=["ndarray:uint64"])
    with pytest.raises(DataError, match="shards of mixed token dtypes that no integer type holds together"):
        open_corpus(folder)


def test_a_column_of_no_bytes_at_all_takes_nothing_from_the_others() -> None:
    columns = [
        MdsColumn(name="none", encoding="ndarray:uint8:0", size=0),
        MdsColumn(name="tokens", encoding="bytes", size=None),
    ]
    buffer = np.frombuffer(struct.pack("<I", 3) + b"abc" + struct.pack("<I", 1) + b"d", np.uint8)
    found = column_runs(buffer, np.array([0, 7, 12]), columns, "here")
    assert {name: (starts.tolist(), sizes.tolist()) for name, (starts, sizes) in found.items()} == {
        "none": ([4, 11], [0, 0]),
        "tokens": ([4, 11], [3, 1]),
    }
