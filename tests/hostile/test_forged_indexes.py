"""Row indexes and manifests that fit each other, and no shard: refused when the shard is opened, whatever they say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpora import write_corpus
from tests.formats import mds_by_hand, tar_by_hand
from tests.hostile.forging import forge_file, forge_index, forge_manifest
from tokenyard import verify
from tokenyard.corpus import open_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.corpus.writer import CorpusWriter
from tokenyard.errors import ConfigError, DataError
from tokenyard.formats.index import most_even
from tokenyard.schema import Schema

ROWS = [[1, 2, 3], [], [5, 6]]
BLOCKS = ["parquet", "jsonl", "csv"]
RUNS = ["mds", "webdataset"]


def write(folder: Path, format: str, **options: Any) -> Path:
    schema = Schema(token_dtype="uint16", fields={"mask": "uint8[]", "source": "string?", "n": "int64"})
    with CorpusWriter(folder, format=format, schema=schema, **options) as writer:
        for i, row in enumerate(ROWS):
            writer.write(row, mask=[1] * len(row), source=None if i == 1 else "x", n=i)
    return folder


def refused(folder: Path, match: str) -> None:
    """Every way to read says so, and so does ``verify``."""
    for way in (lambda c: list(c.batches()), lambda c: c[0], lambda c: c.gather_rows(np.arange(min(len(c), 9)))):
        with pytest.raises(DataError, match=match):
            way(open_corpus(folder))
    assert not verify(folder).ok


@pytest.mark.parametrize("format", ["npy", *RUNS])
@pytest.mark.parametrize(
    ("array", "values", "match"),
    [
        ("field:mask:offsets", None, "should have 4 numbers in 'field:mask:offsets', and has none"),
        ("field:mask:offsets", [0, 3], "'field:mask:offsets' of its row index is not that of 3 rows"),
        ("field:mask:offsets", [0, 9, 3, 5], "'field:mask:offsets' of its row index is not that of 3 rows"),
        ("field:mask:offsets", [1, 3, 3, 5], "'field:mask:offsets' of its row index is not that of 3 rows"),
        ("field:source:null", [7], "'field:source:null' of its row index is not that of 3 rows"),
        ("field:source:null", [-1], "'field:source:null' of its row index is not that of 3 rows"),
        ("field:source:null", [1, 1], "'field:source:null' of its row index is not that of 3 rows"),
        ("field:n:null", [1], "has null rows of field 'n', which is declared int64"),
    ],
)
def test_arrays_of_fields_that_fit_no_rows_are_refused(
    tmp_path: Path, format: str, array: str, values: Any, match: str
) -> None:
    forge_index(write(tmp_path / "c", format), **{array: values})
    refused(tmp_path / "c", match)


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize(("array", "values"), [("starts", [0]), ("starts", None), ("field:n:starts", [0, 0])])
def test_places_of_other_rows_are_refused(tmp_path: Path, format: str, array: str, values: Any) -> None:
    forge_index(write(tmp_path / "c", format), **{array: values})
    match = "and has none" if values is None else f"'{array}' of its row index is not that of 3 rows"
    refused(tmp_path / "c", match)


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize("start", [-1, -(2**63), 2**63 - 1, 2**40])
@pytest.mark.parametrize("read", ["mmap", "pread"])
def test_a_row_outside_its_shard_is_never_read(tmp_path: Path, format: str, start: int, read: Any) -> None:
    forge_index(write(tmp_path / "c", format), starts=[start, 0, 0])
    match = "'starts' of its row index is not that of 3 rows"
    if start >= 0:
        match = f"row 0 would be 3 items from byte {start} on, outside its"
    for way in (lambda c: list(c.batches()), lambda c: c[0], lambda c: c.gather_rows(np.arange(3))):
        with pytest.raises(DataError, match=match):
            way(open_corpus(tmp_path / "c", read=read))


@pytest.mark.parametrize("format", RUNS)
def test_places_that_are_exabytes_apart_are_never_read(tmp_path: Path, format: str) -> None:
    starts = [0, 2**62, 2**63 - 1]
    forge_index(write(tmp_path / "c", format), **dict.fromkeys(("starts", "field:n:starts"), starts))
    with pytest.raises(DataError, match=r"c/shard-00000\.\w+"):
        list(open_corpus(tmp_path / "c", read="pread").batches())


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize("name", ["|O", "<O8", "V0", "S0", "<M8[s]", "<f8", "<i8", 5, None, "<u2,<u2"])
def test_a_stored_dtype_that_does_not_fit_the_schema_is_refused(tmp_path: Path, format: str, name: Any) -> None:
    forge_index(write(tmp_path / "c", format), meta={"dtypes": {"tokens": name}})
    refused(tmp_path / "c", "its row index (names the dtype .*, which is none of numbers|says tokens is stored as)")


def test_dtypes_of_no_field_are_refused(tmp_path: Path) -> None:
    forge_index(write(tmp_path / "c", "mds"), meta={"dtypes": {"absent": "<u2"}})
    refused(tmp_path / "c", "says absent is stored as '<u2', which is not the schema's None")
    forge_index(tmp_path / "c", meta={"ascii": 5})
    refused(tmp_path / "c", "its row index says 5 are fields of text")
    forge_index(tmp_path / "c", meta={"ascii": [], "dtypes": [1]})
    refused(tmp_path / "c", r"its row index names no dtypes but \[1\]")


@pytest.mark.parametrize("format", BLOCKS)
@pytest.mark.parametrize(
    ("values", "match"),
    [
        (None, "its row index has no 'block_rows'"),
        ([], "'block_rows' of its row index is not that of 3 rows"),
        ([0, 9, 3], "'block_rows' of its row index is not that of 3 rows"),
        ([0, 2], "'block_rows' of its row index is not that of 3 rows"),
        ([1, 3], "'block_rows' of its row index is not that of 3 rows"),
    ],
)
def test_storage_blocks_that_are_not_the_rows_are_refused(tmp_path: Path, format: str, values: Any, match: str) -> None:
    forge_index(write(tmp_path / "c", format), block_rows=values)
    refused(tmp_path / "c", match)


@pytest.mark.parametrize("format", ["jsonl", "csv"])
@pytest.mark.parametrize("values", [None, [0], [-5, 9], [9, 0]])
def test_blocks_of_text_at_impossible_places_are_refused(tmp_path: Path, format: str, values: Any) -> None:
    forge_index(write(tmp_path / "c", format), block_starts=values)
    refused(tmp_path / "c", r"its row index has no 'block_starts'|places 1 blocks outside of its \d+ bytes")


@pytest.mark.parametrize("groups", [[5], [-1], [2**62], []])
def test_a_row_group_that_is_not_there_is_refused(tmp_path: Path, groups: list[int]) -> None:
    forge_index(write(tmp_path / "c", "parquet"), groups=groups, piece_rows=[0] * len(groups))
    refused(tmp_path / "c", "no row group 5, it has 1|no row group 4611686018427387904|'groups'")


@pytest.mark.parametrize(
    ("format", "meta", "match"),
    [
        ("mds", {"compression": "rar"}, "the manifest says compression is 'rar', expected one of zstd, gz"),
        ("mds", {"compression": "zstd"}, "raw_bytes is said to be None, expected a number of bytes up to 4294967295"),
        ("mds", {"compression": "zstd", "raw_bytes": 2**62}, "raw_bytes is said to be 4611686018427387904"),
        ("webdataset", {"compression": "xz"}, "the manifest says compression is 'xz', expected one of gz"),
        ("webdataset", {"compression": "gz", "raw_bytes": -1}, "raw_bytes is said to be -1"),
        ("jsonl", {"tokens": 5, "names": []}, "the manifest says tokens is 5, expected a text"),
        ("jsonl", {"tokens": "tokens", "names": 5}, "the manifest says names are 5, expected names"),
        ("csv", {"tokens": "x", "columns": ["y"]}, "the manifest says tokens is 'x', expected one of y"),
        ("csv", {"tokens": "x", "columns": "x"}, "the manifest says columns are 'x', expected names"),
        ("csv", {"tokens": "x", "columns": ["x"]}, "the manifest names no column 'mask'"),
        ("parquet", {"tokens": [1]}, r"the manifest says tokens is \[1\], expected a text"),
    ],
)
def test_what_a_manifest_says_of_a_shard_is_checked(
    tmp_path: Path, format: str, meta: dict[str, Any], match: str
) -> None:
    forge_manifest(write(tmp_path / "c", format), lambda shard: shard.update(meta=meta))
    refused(tmp_path / "c", match)


@pytest.mark.parametrize("count", [2**40, 2**62, most_even(10_000)])
def test_rows_without_a_byte_are_refused_before_memory_is_taken_for_them(tmp_path: Path, count: int) -> None:
    folder = write(tmp_path / "c", "npy")
    name = ".tokenyard/index/shard-00000.idx"
    head = '{"arrays": {"offsets": {"count": %d, "first": 0, "step": 0}}, "meta": {}}'
    forge_file(folder, name, b"TYINDEX1\n" + (head % (count + 1)).encode() + b"\n")
    forge_manifest(folder, lambda shard: shard.update(rows=count, tokens=0))
    refused(folder, f"array 'offsets' of {count + 1} numbers, more rows than a shard of its size has")
    assert len(verify(folder).problems) == 1  # of the shard, not of each of its rows


def test_many_empty_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    count = most_even(200) + 10
    folder = tmp_path / "c"
    with CorpusWriter(folder, format="npy", schema=Schema(token_dtype="uint16"), shard_bytes=1 << 30) as writer:
        from tokenyard.rows import RowBatch

        offsets = np.zeros(count + 1, np.int64)
        writer.write_batch(RowBatch(tokens=np.empty(0, np.uint16), offsets=offsets))
    corpus = open_corpus(folder)
    assert (len(corpus), len(corpus[count - 1])) == (count, 0)


def test_an_array_header_in_an_index_is_checked(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    np.save(tmp_path / "c/a.npy", np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)))
    index_corpus(tmp_path / "c")
    good = {"dtype": "<i4", "shape": [2, 3], "fortran_order": True, "data_start": 128}
    changes = (
        {"shape": [3, 3]},
        {"shape": "x"},
        {"shape": [6]},
        {"shape": [-2, -3]},
        {"shape": [3, 2]},
        {"data_start": -4},
        {"data_start": None},
        {"fortran_order": 1},
        {"dtype": "<i8"},
    )
    for change in changes:
        forge_index(tmp_path / "c", meta={**good, **change})
        refused(tmp_path / "c", "its row index describes .*, which is no array of its 6 tokens of int32")
    forge_index(tmp_path / "c", meta={**good, "dtype": "|O"})
    refused(tmp_path / "c", r"its row index names the dtype '\|O', which is none of numbers")
    forge_index(tmp_path / "c", meta=good)
    assert open_corpus(tmp_path / "c")[1].tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("meta", "arrays", "match"),
    [
        ({"json_bytes": 2**50}, {}, "its row index says 1125899906842624 bytes of tokens, they are 12"),
        ({}, {"json:starts": [-5, 0]}, "JSON members at places below 0"),
        ({}, {"json:starts": None}, "should have 2 numbers in 'json:starts', and has none"),
        ({}, {"json:sizes": [2**62, 2]}, "row 0: "),
        ({}, {"json:starts": [0, 0]}, "row 0: "),
    ],
)
def test_json_members_at_other_places_are_refused(
    tmp_path: Path, meta: dict[str, Any], arrays: dict[str, Any], match: str
) -> None:
    tar_by_hand.make(tmp_path / "c/a.tar", {"0.json": b"[1, 2]", "1.json": b"[3]"})
    index_corpus(tmp_path / "c")
    forge_index(tmp_path / "c", meta=meta, **arrays)
    refused(tmp_path / "c", match)


def test_more_json_tokens_than_a_tar_can_spell_are_refused(tmp_path: Path) -> None:
    tar_by_hand.make(tmp_path / "c/a.tar", {"0.json": b"[1, 2]", "1.json": b"[3]"})
    index_corpus(tmp_path / "c")
    forge_index(tmp_path / "c", meta={"json_bytes": 2**43}, offsets=[0, 2**40, 2**41])
    forge_manifest(tmp_path / "c", lambda shard: shard.update(tokens=2**41))
    refused(tmp_path / "c", r"its row index says 2199023255552 tokens, more than its \d+ bytes can spell")


def test_an_index_of_others_with_options_that_are_none_is_refused(tmp_path: Path) -> None:
    folder = mds_by_hand.dataset(tmp_path / "c", {"tokens": "ndarray:int32"}, [{"tokens": [1]}])
    index_corpus(folder)
    path = folder / ".tokenyard/manifest.json"
    path.write_text(path.read_text().replace('"options": {}', '"options": 5').replace('"listing": "', '"listing": "x'))
    with pytest.raises((ConfigError, DataError), match="options for reading are 5, expected names and values"):
        open_corpus(folder)


def test_verify_names_a_shard_whose_rows_nobody_knows_once(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", [[1, 2]] * 3)
    forge_manifest(tmp_path / "c", lambda shard: shard.update(rows=2**60))
    (problem,) = verify(tmp_path / "c").problems
    assert problem.rows == (0, 2**60 - 1)
    assert "its index counts 3 rows and 6 tokens, the manifest 1152921504606846976 and 6" in problem.message


def test_verify_plans_rows_of_more_bytes_than_64_bits_count(tmp_path: Path) -> None:
    write(tmp_path / "c", "mds")
    forge_index(tmp_path / "c", offsets=[0, 2**60, 2**61, 2**62])
    forge_manifest(tmp_path / "c", lambda shard: shard.update(tokens=2**62))
    problems = [p.message for p in verify(tmp_path / "c").problems]
    assert any("row 0 would be 1152921504606846976 items from byte" in p for p in problems)
