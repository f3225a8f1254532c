"""What readers check always: a shard that is another's, and an index that can't be true, are errors that name them."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import tokenyard
from tests.converters.verify.made import edit_manifest, index_file, shard_file, write
from tokenyard.errors import DataError
from tokenyard.formats.index import ShardIndex
from tokenyard.schema import Schema
from tokenyard.storage import checksum

READ_MODES = ("mmap", "pread")


def rewrite_index(path: Path, change) -> None:
    """Give shard 0 another index, which the manifest names as its own."""
    file = index_file(path, 0)
    found = ShardIndex.from_bytes(file.read_bytes(), "index")
    arrays = {name: array.copy() for name, array in found.arrays.items()}
    change(arrays)
    data = ShardIndex(arrays=arrays, meta=found.meta).to_bytes()
    file.write_bytes(data)
    edit_manifest(
        path, lambda said: said["shards"][0].update(index=[said["shards"][0]["index"][0], len(data), checksum(data)])
    )


def all_ways(path, read):
    """Every way to read shard 0."""
    return (
        lambda: list(tokenyard.open_corpus(path, read=read).batches()),
        lambda: tokenyard.open_corpus(path, read=read)[0],
        lambda: tokenyard.open_corpus(path, read=read).gather_rows(np.array([0])),
    )


@pytest.mark.parametrize("read", READ_MODES)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_an_mds_shard_of_the_same_size_and_count_but_other_rows_is_refused(tmp_path, compression, read):
    if compression == "zstd" and read == "pread":
        read = "auto"
    options = {"compression": compression, "compression_level": 1} if compression == "zstd" else {}
    for name, lengths in (("a", (2, 3)), ("b", (3, 2))):
        with tokenyard.CorpusWriter(tmp_path / name, format="mds", schema=Schema(token_dtype="uint16"), **options) as w:
            for n in lengths:
                w.write(np.full(n, 7))
    mine, other = shard_file(tmp_path / "a", 0), shard_file(tmp_path / "b", 0)
    shutil.copy(other, mine)
    edit_manifest(tmp_path / "a", lambda said: said["shards"][0]["files"][0].__setitem__(1, other.stat().st_size))
    for way in all_ways(tmp_path / "a", read):
        with pytest.raises(
            DataError,
            match=re.escape(str(mine))
            + r": row 0 lies in bytes .*, its row index says its tokens are the 4 bytes from \d+ on; the shard is "
            + "another's, or damaged: restore it",
        ):
            way()


@pytest.mark.parametrize("read", READ_MODES)
@pytest.mark.parametrize("compression", ["none", "gz"])
def test_a_tar_in_the_place_of_another_is_refused_by_the_keys_in_it(tmp_path, compression, read):
    path = write(tmp_path / "corpus", "webdataset", num_rows=600, shard_bytes=5000, compression=compression)
    a, b = shard_file(path, 0), shard_file(path, 1)
    shutil.copy(b, a)
    edit_manifest(path, lambda said: said["shards"][0]["files"][0].__setitem__(1, b.stat().st_size))
    for way in all_ways(path, read):
        with pytest.raises(
            DataError,
            match=re.escape(str(a))
            + r": its first member's name begins with b'00001000000\.', in this shard it is b'00000000000\.'; the "
            + "shard is another's",
        ):
            way()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("starts", lambda arrays: arrays.update(starts=arrays["starts"][:-1])),
        ("starts", lambda arrays: arrays["starts"].__setitem__(0, -8)),
        ("field:text:starts", lambda arrays: arrays["field:text:starts"].__setitem__(3, -1)),
        ("field:text:offsets", lambda arrays: arrays["field:text:offsets"].__setitem__(4, 1)),
        ("field:text:offsets", lambda arrays: arrays.update({"field:text:offsets": arrays["field:text:offsets"][1:]})),
        ("field:text:null", lambda arrays: arrays.update({"field:text:null": np.array([1, 99])})),
        ("field:text:null", lambda arrays: arrays.update({"field:text:null": np.array([3, 1])})),
    ],
)
def test_an_index_that_can_not_be_true_is_an_error_that_names_shard_and_array(tmp_path, name, change):
    schema = Schema(token_dtype="uint16", fields={"text": "string?"})
    with tokenyard.CorpusWriter(tmp_path, format="mds", schema=schema) as writer:
        for i in range(8):
            writer.write(np.arange(i), text=None if i % 4 == 1 else "x" * i)
    rewrite_index(tmp_path, change)
    for way in all_ways(tmp_path, "auto"):
        with pytest.raises(
            DataError, match=rf"shard-00000\.mds: '{name}' of its row index is not that of 8 rows; the index"
        ):
            way()


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_an_index_of_another_format_is_an_error_that_names_what_it_lacks(tmp_path, format):
    write(tmp_path / "corpus", format, num_rows=50)
    rewrite_index(tmp_path / "corpus", lambda arrays: arrays.pop("block_rows"))
    for way in all_ways(tmp_path / "corpus", "auto"):
        with pytest.raises(
            DataError, match=rf"its row index has no 'block_rows', which format {format} needs; rebuild"
        ):
            way()


@pytest.mark.parametrize("format", ["jsonl", "csv"])
@pytest.mark.parametrize("starts", [[0], [0, 1 << 40], [-1, 10], [10, 0]])
def test_blocks_of_text_outside_of_the_file_are_an_error(tmp_path, format, starts):
    write(tmp_path / "corpus", format, num_rows=50)
    rewrite_index(tmp_path / "corpus", lambda arrays: arrays.update(block_starts=np.array(starts)))
    for way in all_ways(tmp_path / "corpus", "auto"):
        with pytest.raises(
            DataError, match=r"its row index places 1 blocks outside of its \d+ bytes; the index is damaged"
        ):
            way()
