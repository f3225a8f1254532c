"""MDS datasets that are damaged or not what they promise: an error with the shard, the sample and both numbers."""

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats import mds_by_hand as by_hand
from tokenyard import Corpus, open_corpus
from tokenyard.errors import DataError


def ids(*values: int) -> dict[str, Any]:
    return {"tokens": list(values)}


def all_tokens(corpus: Corpus) -> list[list[int]]:
    return [corpus[i].tolist() for i in range(len(corpus))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(*range(i + 1)) for i in range(5)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"samples": 6},
            r"shard.00000.mds: index.json \(or the manifest\) promises 6 samples, the shard holds 5; restore",
        ),
        ({"samples": -1}, r"index.json: shards\[0\]: samples is -1, expected a whole number from 0 on"),
        (
            {"raw_data": {"bytes": 17}},
            r"shard.00000.mds: \d+ bytes, index.json says 17; it was cut or replaced, restore it",
        ),
        (
            {"raw_data": {"bytes": 2**32}},
            r"has 4294967296 bytes, an MDS shard 4294967295 at most: its 32-bit offsets have wrapped",
        ),
        ({"raw_data": {"basename": "gone.mds"}}, "index.json: gone.mds is missing; copy the dataset again"),
        ({"raw_data": {"basename": "../x.mds"}}, r"shards\[0\]: file name '../x.mds' is not a plain relative path"),
        ({"raw_data": None}, r"shards\[0\]: 'NoneType' object"),
        ({"format": "json"}, r"shards\[0\]: format 'json' version 2, tokenyard reads mds version 2"),
        ({"column_sizes": [4]}, "holds a column_size of 4, but ndarray:int32 takes varying bytes"),
        ({"column_sizes": []}, r"shards\[0\]: column_names, column_encodings and column_sizes differ"),
        ({"column_names": [5]}, r"shards\[0\]: found 5, expected text"),
        (
            {"column_encodings": ["ndarray:int64"]},
            r"'tokens', row 0: 6 bytes, but its header promises 1 items of int64",
        ),
        ({"column_encodings": ["uint32"], "column_sizes": [4]}, "'tokens' is uint32, but token ids are"),
    ],
)
def test_an_index_json_that_is_wrong_is_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_corpus(by_hand.edit(folder, **changes))


def test_all_problems_of_an_index_json_are_told_at_once(tmp_path: Path) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(1)] * 13, shard_rows=1)
    index = json.loads((folder / "index.json").read_text())
    for entry in index["shards"]:
        del entry["samples"]
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match=r"shards\[0\]: no 'samples'; shards\[1\]: no 'samples'.*; and 3 more"):
        open_corpus(folder)


def test_an_index_json_of_another_version_is_refused(folder: Path) -> None:
    (folder / "index.json").write_text('{"version": 3, "shards": []}')
    with pytest.raises(DataError, match=r"index.json: version 3 of StreamingDataset's index, tokenyard reads 2"):
        open_corpus(folder)


def test_an_index_json_that_names_no_shards_is_refused(folder: Path) -> None:
    (folder / "index.json").write_text('{"version": 2, "shards": []}')
    with pytest.raises(DataError, match="names no shards, so nothing says which columns there are"):
        open_corpus(folder)


def test_two_columns_of_one_name_are_refused(folder: Path) -> None:
    twice = {"column_names": ["a", "a"], "column_encodings": ["int", "int"], "column_sizes": [8, 8]}
    with pytest.raises(DataError, match=r"shards\[0\]: columns of one name"):
        open_corpus(by_hand.edit(folder, **twice))


def test_a_damaged_index_json_beside_shards_is_told(folder: Path) -> None:
    (folder / "index.json").write_text("{")
    with pytest.raises(
        DataError, match=r"an MDS shard without StreamingDataset's index.json beside it; that file is damaged"
    ):
        open_corpus(folder)


def test_a_shard_alone_is_refused_with_what_is_missing(folder: Path) -> None:
    with pytest.raises(
        DataError, match=r"an MDS shard without StreamingDataset's index.json beside it; restore it, and open"
    ):
        open_corpus(folder / "shard.00000.mds")


def test_a_folder_of_datasets_is_refused_naming_them(tmp_path: Path) -> None:
    for name in ("train", "val"):
        by_hand.dataset(tmp_path / "d" / name, {"tokens": "ndarray:int32"}, [ids(1)])
    with pytest.raises(DataError, match=r"no index.json here, but one in each of train, val; .*open one of them"):
        open_corpus(tmp_path / "d")


def test_another_tool_s_index_json_is_not_taken_for_mds(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"chunks": [], "config": {}}')
    np.save(tmp_path / "a.npy", np.arange(3))
    assert open_corpus(tmp_path).format == "npy"


def test_missing_and_cut_compressed_shards_are_told(tmp_path: Path) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(1)], compression="zstd", keep_raw=True)
    (folder / "shard.00000.mds").write_bytes(b"half")
    with pytest.raises(
        DataError, match=r"mds: 4 bytes, index.json says \d+; .*delete it, shard.00000.mds.zstd holds the same"
    ):
        open_corpus(folder)
    os.remove(folder / "shard.00000.mds")
    (folder / "shard.00000.mds.zstd").write_bytes(b"1")
    with pytest.raises(DataError, match=r"mds.zstd: 1 bytes, index.json says \d+; it was cut or replaced, restore it"):
        open_corpus(folder)
    os.remove(folder / "shard.00000.mds.zstd")
    with pytest.raises(
        DataError, match=r"shard.00000.mds is missing, and so is shard.00000.mds.zstd; copy the dataset again"
    ):
        open_corpus(folder)


@pytest.mark.parametrize("compression", ["zstd", "gz", "br", "bz2", "snappy"])
@pytest.mark.parametrize(
    ("promised", "message"), [(-1, "(gives more than that|it says)"), (1, r"(gives \d+|it says)"), (0, "damaged")]
)
def test_decompression_gives_exactly_the_promised_bytes_or_an_error(
    tmp_path: Path, compression: str, promised: int, message: str
) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(*range(999))], compression=compression)
    path = folder / f"shard.00000.mds.{compression}"
    size = json.loads((folder / "index.json").read_text())["shards"][0]["raw_data"]["bytes"]
    if promised == 0:
        data = path.read_bytes()
        path.write_bytes(data[:10] + bytes(255 - b for b in data[10:]))
    with pytest.raises(DataError, match=rf"shard.00000.mds.{compression}: .*{message}.*; restore"):
        open_corpus(by_hand.edit(folder, raw_data={"bytes": size + promised}))


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    folder = by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32"}, [ids(1)], compression="zstd")
    with pytest.raises(DataError, match="compression 'lzma'; tokenyard reads zstd, gz, br, bz2, snappy"):
        open_corpus(by_hand.edit(folder, compression="lzma"))


def patched(folder: Path) -> Iterator[tuple[Path, bytearray]]:
    path = folder / "shard.00000.mds"
    data = bytearray(path.read_bytes())
    yield path, data
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d, at: d.__setitem__(slice(12, 16), bytes(4)),
            r"sample 2 begins at byte 0, but not before byte \d+ it could; the 32-bit",
        ),
        (
            lambda d, at: d.__setitem__(slice(4, 8), b"\x05\0\0\0"),
            "sample 0 begins at byte 5, but not before byte 28 it could",
        ),
        (
            lambda d, at: d.__setitem__(slice(24, 28), struct.pack("<I", len(d) - 1)),
            r"the samples end at byte \d+, the shard at byte",
        ),
        (
            lambda d, at: d.__setitem__(slice(at, at + 4), struct.pack("<I", 7)),
            "sample 0 has 10 bytes, its columns take 11; the shard",
        ),
        (
            lambda d, at: d.__setitem__(slice(8, 12), struct.pack("<I", at + 2)),
            "sample 0 has 2 bytes, its columns take 4; the shard",
        ),
        (lambda d, at: d.__setitem__(at + 5, 9), "row 0: 6 bytes, but its header promises 9 items of int32"),
        (lambda d, at: d.__setitem__(at + 4, 0), r"row 0: an array of shape \(\); a row's value has one dimension"),
        (lambda d, at: d.__setitem__(at + 4, 4 | 3), "row 0: too few bytes for an array; the shard is damaged"),
    ],
)
def test_a_damaged_shard_is_refused_with_the_sample_and_both_numbers(folder: Path, change: Any, message: str) -> None:
    for _, data in patched(folder):
        change(data, struct.unpack_from("<I", data, 4)[0])
    with pytest.raises(DataError, match=rf"shard.00000.mds.*{message}"):
        open_corpus(folder)


def test_a_shard_of_few_bytes_is_refused(folder: Path) -> None:
    (folder / "shard.00000.mds").write_bytes(struct.pack("<I", 5) + bytes(8))
    with pytest.raises(
        DataError, match=r"shard.00000.mds: 12 bytes can't hold the offsets of 5 samples; the shard was cut"
    ):
        open_corpus(by_hand.edit(folder, raw_data={"bytes": 12}))


def test_offsets_that_wrapped_past_4_gib_are_refused(folder: Path) -> None:
    """A sparse file: the shard's first sample ends past 4 GiB, so the offsets behind it have wrapped."""
    size = 2**32 + 1_000
    os.truncate(folder / "shard.00000.mds", size)
    with pytest.raises(
        DataError, match=f"shard.00000.mds has {size} bytes, an MDS shard 4294967295 at most: its 32-bit offsets"
    ):
        open_corpus(by_hand.edit(folder, raw_data={"bytes": size}))
    with pytest.raises(DataError, match=f"shard.00000.mds: {size} bytes, index.json says 1000; it was cut or replaced"):
        open_corpus(by_hand.edit(folder, raw_data={"bytes": 1_000}))


def test_the_row_of_text_that_is_not_utf_8_is_named_where_only_the_whole_is(tmp_path: Path) -> None:
    samples = [ids(1) | {"t": b"ok"}, ids(1) | {"t": "é".encode()[:1]}, ids(1) | {"t": "é".encode()[1:]}]
    corpus = open_corpus(by_hand.dataset(tmp_path / "d", {"tokens": "ndarray:int32", "t": "str"}, samples))
    with pytest.raises(DataError, match="field 't', row 1: not UTF-8"):
        list(corpus.batches())
