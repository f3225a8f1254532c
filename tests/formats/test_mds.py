"""MDS as we write it: laid out as the library does, to the byte, and never past its limits."""

import gc
import itertools
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats import mds_by_hand as by_hand
from tests.formats.all_fields import FIELDS, assert_same, make_samples, write_mds
from tokenyard import Schema, open_corpus
from tokenyard.digest import digest_of
from tokenyard.errors import ConfigError, DataError, SchemaError
from tokenyard.formats.mds import FORMAT
from tokenyard.formats.mds import encoding as mds_encode
from tokenyard.formats.shared import runs_reader
from tokenyard.rows import RowBatch
from tokenyard.storage import Folder

COMPRESSIONS = ["none", "zstd", "gz", "br", "bz2", "snappy"]
LENGTHS = [3, 0, 1, 255, 256, 65535, 65536, 2]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_rows_of_every_length_and_every_type_of_field_come_back(tmp_path: Path, compression: str) -> None:
    samples = make_samples(LENGTHS)
    corpus = open_corpus(write_mds(tmp_path / "c", samples, FIELDS, compression=compression, shard_bytes=200_000))
    assert len(corpus.manifest.shards) == 2
    assert_same(corpus, samples)
    assert corpus.manifest.digests is not None
    assert not digest_of(corpus.batches(), corpus.schema.fields).differences(corpus.manifest.digests)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_gathers_of_tokens_and_list_fields_come_from_where_they_lie(tmp_path: Path, compression: str) -> None:
    samples = make_samples(LENGTHS)
    corpus = open_corpus(write_mds(tmp_path / "c", samples, FIELDS, compression=compression, shard_bytes=2_000))
    order = np.array([7, 0, 4, 4, 1, 6])
    for field in ("tokens", "mask", "weights", "yes"):
        flat, offsets = corpus.gather_rows(order, field)
        empty = np.empty(0, np.float32)
        expected = [samples[i][field] if samples[i][field] is not None else empty for i in order]
        np.testing.assert_array_equal(flat, np.concatenate(expected))
        np.testing.assert_array_equal(np.diff(offsets), [len(e) for e in expected])
    windows = corpus.gather_windows(np.array([0, 100, 600]), 300)
    stream = np.concatenate([s["tokens"] for s in samples])
    np.testing.assert_array_equal(windows, [stream[a : a + 300] for a in (0, 100, 600)])


def test_a_shard_is_laid_out_as_the_library_lays_it_out(tmp_path: Path) -> None:
    samples = [{"tokens": np.array([1, 2], np.uint16), "a": 5}, {"tokens": np.arange(256, dtype=np.uint16), "a": 6}]
    folder = write_mds(tmp_path / "c", samples, {"a": "int32"})
    made = (folder / "shard-00000.mds").read_bytes()
    theirs = by_hand.shard({"a": "int32", "tokens": "ndarray:uint16"}, samples)
    # All but the size_limit in the JSON of the columns, which moves the offsets.
    config = b'"size_limit": null'
    their_config = b'"size_limit": 67108864'
    moved = len(their_config) - len(config)
    count, *offsets = struct.unpack_from("<4I", theirs)
    expected = struct.pack("<4I", count, *[o - moved for o in offsets]) + theirs[16:].replace(their_config, config)
    assert made == expected


def test_index_json_names_the_shards_as_the_library_does(tmp_path: Path) -> None:
    folder = write_mds(
        tmp_path / "c",
        make_samples(LENGTHS)[:1],
        {"mask": "uint8[]", "aa": "string?", "half": "float16?"} | FIELDS,
        compression="zstd",
    )
    index = json.loads((folder / "index.json").read_text())
    raw = {"basename": "shard-00000.mds", "bytes": index["shards"][0]["raw_data"]["bytes"], "hashes": {}}
    packed = {
        "basename": "shard-00000.mds.zstd",
        "bytes": (folder / "shard-00000.mds.zstd").stat().st_size,
        "hashes": {},
    }
    columns = {
        "aa": ("str", None),
        "aa.valid": ("uint8", 1),
        "bytes": ("bytes", None),
        "flag": ("uint8", 1),
        "half": ("float16", 2),
        "half.valid": ("uint8", 1),
        "mask": ("ndarray:uint8", None),
        "tokens": ("ndarray:uint16", None),
        "unsigned": ("uint64", 8),
        "weights": ("ndarray:float32", None),
        "weights.valid": ("uint8", 1),
        "yes": ("ndarray:uint8", None),
    }
    assert index == {
        "version": 2,
        "shards": [
            {
                "version": 2,
                "format": "mds",
                "compression": "zstd",
                "hashes": [],
                "size_limit": None,
                "samples": 1,
                "raw_data": raw,
                "zip_data": packed,
                "column_names": list(columns),
                "column_encodings": [e for e, _ in columns.values()],
                "column_sizes": [s for _, s in columns.values()],
            }
        ],
    }


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_equal_rows_give_equal_bytes_however_they_were_handed_over(tmp_path: Path, compression: str) -> None:
    samples, schema = make_samples(LENGTHS), Schema(token_dtype="uint16", fields=FIELDS)
    batch = RowBatch.from_rows([s["tokens"] for s in samples], schema, {n: [s[n] for s in samples] for n in FIELDS})
    options = FORMAT.options({"compression": compression})
    made = []
    for name, cuts in (("one", [0, 8]), ("many", [0, 1, 3, 8])):
        batches = [batch.slice(a, b) for a, b in itertools.pairwise(cuts)]
        written = FORMAT.write_shard(Folder(tmp_path / name), "s", batches, schema, options)
        made.append(((tmp_path / name / written.files[0].name).read_bytes(), written.index.to_bytes()))
    assert made[0] == made[1]


def test_packed_rows_have_an_index_of_a_few_hundred_bytes(tmp_path: Path) -> None:
    samples = [{"tokens": np.full(2048, i, np.uint16)} for i in range(50)]
    folder = write_mds(tmp_path / "c", samples)
    assert (folder / ".tokenyard/index/shard-00000.idx").stat().st_size < 300


def test_a_folder_of_ours_without_its_manifest_opens_with_the_same_tokens_and_nulls(tmp_path: Path) -> None:
    samples = make_samples(LENGTHS)
    folder = write_mds(tmp_path / "c", samples, FIELDS, shard_bytes=200_000)
    os.rename(folder / ".tokenyard", tmp_path / "kept")
    corpus = open_corpus(folder)
    for sample in samples:  # bool is kept as uint8
        sample["flag"] = np.uint8(sample["flag"]).item()
        sample["yes"] = sample["yes"].astype(np.uint8)
    assert_same(corpus, samples)
    types = {n: str(t) for n, t in corpus.schema.fields.items()}
    assert types == FIELDS | {"flag": "uint8", "yes": "uint8[]"}


def test_a_corpus_of_no_rows_has_an_index_json(tmp_path: Path) -> None:
    folder = write_mds(tmp_path / "c", [])
    assert json.loads((folder / "index.json").read_text()) == {"version": 2, "shards": []}
    assert len(open_corpus(folder)) == 0


def test_a_new_shard_begins_before_the_format_s_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FORMAT, "max_file_bytes", 4_096)
    samples = [{"tokens": np.full(300, i, np.uint16)} for i in range(20)]
    corpus = open_corpus(write_mds(tmp_path / "c", samples))
    assert [s.num_rows for s in corpus.manifest.shards] == [6, 6, 6, 2]
    assert all(s.num_bytes <= 4_096 for s in corpus.manifest.shards)
    assert_same(corpus, samples)


def test_a_row_that_no_shard_can_hold_is_refused_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FORMAT, "max_file_bytes", 4_096)
    samples = [{"tokens": np.zeros(n, np.uint16)} for n in (5, 3_000)]
    with pytest.raises(SchemaError, match=r"row 1: 60\d\d bytes, but a file of format mds holds 4096; cut the row"):
        write_mds(tmp_path / "c", samples)


def test_a_shard_past_4_gib_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mds_encode, "MAX_SHARD_BYTES", 1_000)
    with pytest.raises(
        DataError, match=r"shard-00000.mds: 1 rows take \d+ bytes, an MDS shard holds 1000; use a smaller"
    ):
        write_mds(tmp_path / "c", [{"tokens": np.zeros(1_000, np.uint16)}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "lzma"}, r"options of format mds: compression: .*'none', 'zstd'.*; found 'lzma'"),
        ({"compression": "zstd", "compression_level": 23}, "compression_level 23: zstd has levels 1 .. 22"),
        ({"compression_level": 3}, "compression_level 3: compression none has no levels"),
        ({"level": 3}, "format mds has no option level; it has compression, compression_level, shard_bytes"),
    ],
)
def test_options_that_mds_does_not_have_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FORMAT.options(options)


def test_the_fields_of_a_decoded_shard_share_its_bytes_and_nobody_keeps_them(tmp_path: Path) -> None:
    folder = write_mds(tmp_path / "c", make_samples(LENGTHS), FIELDS, compression="zstd")
    corpus = open_corpus(folder)
    list(corpus.batches())
    kept = runs_reader._thread.kept
    assert kept is not None
    assert kept.shard is not None
    reader = corpus._reader(0)
    tokens, mask = reader.extents(0), reader.extents(0, "mask")
    assert tokens.buffer is mask.buffer is kept.shard.buffer
    del corpus, reader
    gc.collect()
    assert kept.shard is None


def test_a_shard_that_is_not_the_manifest_s_is_refused(tmp_path: Path) -> None:
    folder = write_mds(tmp_path / "c", [{"tokens": np.arange(5, dtype=np.uint16)}])
    path = folder / "shard-00000.mds"
    data = bytearray(path.read_bytes())
    data[0] = 2
    path.write_bytes(data)
    with pytest.raises(
        DataError, match=r"shard-00000.mds: index.json \(or the manifest\) promises 1 samples, .* holds 2"
    ):
        open_corpus(folder)[0]
