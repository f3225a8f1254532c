"""WebDataset as we write it: plain tars, the same bytes for the same rows, that numpy and tarfile read."""

import gzip
import io
import os
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.all_fields import FIELDS, assert_same, make_samples, write_webdataset
from tokenyard import Schema, open_corpus
from tokenyard.digest import digest_of
from tokenyard.errors import ConfigError, SchemaError
from tokenyard.formats.npy.header import read_header, write_header
from tokenyard.formats.shared import blocks
from tokenyard.formats.webdataset import FORMAT, tar
from tokenyard.formats.webdataset import encoding as tar_encode
from tokenyard.rows import RowBatch
from tokenyard.storage import Folder

LENGTHS = [3, 0, 1, 255, 256, 65536, 2]


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_rows_of_every_length_and_every_type_of_field_come_back(tmp_path: Path, compression: str) -> None:
    samples = make_samples(LENGTHS)
    corpus = open_corpus(write_webdataset(tmp_path / "c", samples, FIELDS, compression=compression, shard_bytes=700))
    assert [s.num_rows for s in corpus.manifest.shards] == [4, 1, 1, 1]
    assert_same(corpus, samples)
    assert corpus.manifest.digests is not None
    assert not digest_of(corpus.batches(), corpus.schema.fields).differences(corpus.manifest.digests)


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_gathers_of_tokens_and_list_fields_come_from_where_they_lie(tmp_path: Path, compression: str) -> None:
    samples = make_samples(LENGTHS)
    corpus = open_corpus(write_webdataset(tmp_path / "c", samples, FIELDS, compression=compression, shard_bytes=700))
    order = np.array([6, 0, 4, 4, 1, 5])
    for field in ("tokens", "mask", "weights", "yes"):
        flat, offsets = corpus.gather_rows(order, field)
        empty = np.empty(0, np.float32)
        expected = [samples[i][field] if samples[i][field] is not None else empty for i in order]
        np.testing.assert_array_equal(flat, np.concatenate(expected))
        np.testing.assert_array_equal(np.diff(offsets), [len(e) for e in expected])


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_equal_rows_give_equal_bytes_however_they_were_handed_over(
    tmp_path: Path, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, schema = make_samples(LENGTHS), Schema(token_dtype="uint16", fields=FIELDS)
    batch = RowBatch.from_rows([s["tokens"] for s in samples], schema, {n: [s[n] for s in samples] for n in FIELDS})
    options = FORMAT.options({"compression": compression})
    made = []
    for name, cuts, piece in (("one", [0, 7], 4096), ("many", [0, 1, 3, 7], 4096), ("pieces", [0, 7], 2)):
        monkeypatch.setattr(blocks, "PIECE_ROWS", piece)
        batches = [batch.slice(a, b) for a, b in pairwise(cuts)]
        written = FORMAT.write_shard(Folder(tmp_path / name), "s-7", batches, schema, options)
        made.append(((tmp_path / name / written.files[0].name).read_bytes(), written.index.to_bytes()))
    assert made[0] == made[1] == made[2]


def test_members_have_the_rows_number_as_key_and_nothing_of_the_time_or_the_user(tmp_path: Path) -> None:
    samples = make_samples(LENGTHS)
    folder = write_webdataset(tmp_path / "c", samples, FIELDS, shard_bytes=700)
    with tarfile.open(folder / "shard-00001.tar") as archive:
        found = archive.getmembers()
        # Row 4 of the corpus, the only one of this shard; its weights are null.
        assert [m.name for m in found] == [
            f"00001000000.{end}"
            for end in (
                "tokens.npy", "aa.txt", "bytes.bin", "flag.npy", "half.npy", "mask.npy", "unsigned.npy", "yes.npy",
            )
        ]  # fmt: skip
        for member in found:
            assert (member.mtime, member.uid, member.gid, member.uname, member.gname) == (0, 0, 0, "", "")
            assert (member.mode, member.isreg()) == (0o444, True)
        data = {m.name: file.read() for m in found if (file := archive.extractfile(m))}
    np.testing.assert_array_equal(np.load(io.BytesIO(data["00001000000.tokens.npy"])), samples[4]["tokens"])
    assert np.load(io.BytesIO(data["00001000000.half.npy"])) == np.float16(2)
    assert np.load(io.BytesIO(data["00001000000.unsigned.npy"])).shape == ()
    assert data["00001000000.aa.txt"].decode() == samples[4]["aa"]
    raw = (folder / "shard-00001.tar").read_bytes()
    assert raw.endswith(tar.END)
    assert len(raw) % 512 == 0


def test_keys_get_more_digits_when_a_shard_has_more_samples() -> None:
    encoder = tar_encode.TarEncoder(Schema(token_dtype="uint16"), "shard-00003", 1_000_001)
    batch = RowBatch.from_rows([np.arange(3)], Schema(token_dtype="uint16"))
    assert encoder.encode(batch)[:23].tobytes() == b"000030000000.tokens.npy"


def test_a_gzipped_shard_holds_the_same_tar(tmp_path: Path) -> None:
    raw = write_webdataset(tmp_path / "raw", make_samples(LENGTHS), FIELDS)
    packed = write_webdataset(tmp_path / "gz", make_samples(LENGTHS), FIELDS, compression="gz", compression_level=1)
    data = (packed / "shard-00000.tar.gz").read_bytes()
    assert gzip.decompress(data) == (raw / "shard-00000.tar").read_bytes()
    assert data[4:8] == bytes(4), "a time"


def test_a_folder_of_ours_without_its_manifest_opens_with_the_same_rows(tmp_path: Path) -> None:
    samples = make_samples(LENGTHS)
    folder = write_webdataset(tmp_path / "c", samples, FIELDS)
    os.rename(folder / ".tokenyard", tmp_path / "kept")
    corpus = open_corpus(folder)
    assert_same(corpus, samples)
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == FIELDS


def test_packed_rows_have_an_index_of_a_few_hundred_bytes_and_one_stride(tmp_path: Path) -> None:
    samples = [{"tokens": np.full(2048, i, np.uint16)} for i in range(50)]
    folder = write_webdataset(tmp_path / "c", samples)
    assert (folder / ".tokenyard/index/shard-00000.idx").stat().st_size < 300
    assert (folder / "shard-00000.tar").stat().st_size == 50 * 5120 + 1024


def test_a_corpus_of_no_rows_opens(tmp_path: Path) -> None:
    assert len(open_corpus(write_webdataset(tmp_path / "c", []))) == 0


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int64", "float16", "float64", "bool", "int8"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2048,), (10**12,)])
def test_npy_headers_have_80_bytes_and_numpy_reads_them(dtype: str, shape: tuple[int, ...]) -> None:
    made = write_header(np.dtype(dtype).newbyteorder("<"), shape)
    assert len(made) == 80
    assert read_header(made).shape == shape
    version = np.lib.format.read_magic(stream := io.BytesIO(made))
    assert (version, np.lib.format.read_array_header_1_0(stream)) == ((1, 0), (shape, False, np.dtype(dtype)))


def test_a_field_whose_member_names_a_tar_can_not_hold_is_refused(tmp_path: Path) -> None:
    name = "n" * 90
    with pytest.raises(
        SchemaError, match=rf"field '{name}': the name of its members would have 106 characters, .* 100"
    ):
        write_webdataset(tmp_path / "c", [{"tokens": np.ones(1, np.uint16), name: 1}], {name: "int64"})


def test_a_row_that_no_member_can_hold_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar, "MAX_MEMBER_BYTES", 1_000)
    samples = [{"tokens": np.zeros(n, np.uint16)} for n in (5, 3_000)]
    with pytest.raises(
        SchemaError, match="row 1 of the shard: 6080 bytes of tokens, a member of a tar holds 1000; cut"
    ):
        write_webdataset(tmp_path / "c", samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "zstd"}, r"options of format webdataset: compression: .*'none' or 'gz'.*; found 'zstd'"),
        ({"compression": "gz", "compression_level": 10}, r"compression_level 10: gz has levels 0 \.\. 9"),
    ],
)
def test_options_that_webdataset_does_not_have_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FORMAT.options(options)
