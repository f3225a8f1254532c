"""Parquet: the layout of our own files, and row groups walked, gathered and decoded."""

import gc
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenyard
from tests.formats import all_types
from tokenyard.errors import ConfigError, DataError, SchemaError, StorageError
from tokenyard.formats.parquet import reader as parquet_reader
from tokenyard.rows import Column, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema


def rows(lengths: list[int], token_dtype: str = "uint16") -> RowBatch:
    ids = np.random.default_rng(0).integers(0, 60_000, sum(lengths))
    return RowBatch(tokens=ids.astype(token_dtype), offsets=offsets_of(lengths))


def write(path: Path, batch: RowBatch, schema: Schema | None = None, **options: Any) -> tokenyard.Corpus:
    schema = schema or Schema(token_dtype=batch.tokens.dtype.name)
    with tokenyard.CorpusWriter(path, format="parquet", schema=schema, **options) as w:
        w.write_batch(batch)
    return tokenyard.open_corpus(path)


def shard_of(corpus: tokenyard.Corpus, i: int = 0) -> Path:
    return corpus.folder.path / corpus.manifest.shards[i].name


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


# ---- layout ----


def test_columns_have_natural_types_and_are_nullable_exactly_where_declared(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", all_types.rows(), all_types.schema())
    layout = pq.read_schema(shard_of(corpus))
    assert layout.names[0] == "tokens"
    assert layout.field("tokens").type == pa.list_(pa.field("element", pa.uint16(), nullable=False))
    for name, kind in {
        "text": pa.string(),
        "raw": pa.binary(),
        "one_bool": pa.bool_(),
        "one_float16": pa.float16(),
    }.items():
        assert layout.field(name).type == kind
    assert layout.field("loss_mask").type == pa.list_(pa.field("element", pa.uint8(), nullable=False))
    assert {f.name for f in layout if f.nullable} == {n for n in all_types.values() if n.startswith("maybe_")}


@pytest.mark.parametrize("token_dtype", ["uint16", "uint32", "int32", "int64"])
def test_every_token_dtype_is_kept(tmp_path: Path, token_dtype: str) -> None:
    corpus = write(tmp_path / "c", rows([3, 0, 5], token_dtype))
    assert pq.read_schema(shard_of(corpus)).field("tokens").type.value_type == pa.from_numpy_dtype(token_dtype)
    assert corpus[2].dtype == token_dtype


@pytest.mark.parametrize(
    ("compression", "codec", "encoding"),
    [
        ("zstd", "ZSTD", "BYTE_STREAM_SPLIT"),
        ("lz4", "LZ4", "BYTE_STREAM_SPLIT"),
        ("snappy", "SNAPPY", "BYTE_STREAM_SPLIT"),
        ("none", "UNCOMPRESSED", "RLE_DICTIONARY"),
    ],
)
def test_tokens_are_encoded_for_their_codec(tmp_path: Path, compression: str, codec: str, encoding: str) -> None:
    corpus = write(tmp_path / "c", rows([100] * 50), compression=compression)
    chunk = pq.read_metadata(shard_of(corpus)).row_group(0).column(0)
    assert (chunk.path_in_schema, chunk.compression) == ("tokens.list.element", codec)
    assert encoding in chunk.encodings
    assert "PLAIN" not in chunk.encodings or compression == "none"


def test_a_row_group_is_bounded_in_rows_and_bytes_but_a_long_row_is_alone(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", rows([10] * 7 + [500, 10, 10]), row_group_rows=3, row_group_bytes=100)
    footer = pq.read_metadata(shard_of(corpus))
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [3, 3, 1, 1, 1, 1]
    assert len(corpus[7]) == 500


def test_row_groups_hold_1024_rows_by_default(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", rows([2] * 2500))
    footer = pq.read_metadata(shard_of(corpus))
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [1024, 1024, 452]


def test_row_groups_are_those_of_order_blocks_in_every_shard(tmp_path: Path) -> None:
    shard_bytes = 2500 * (16 + 2 * 2)  # tokens, and what a row costs beyond them
    corpus = write(tmp_path / "c", rows([2] * 6000), shard_bytes=shard_bytes)
    footers = [pq.read_metadata(tmp_path / "c" / shard.files[0].name) for shard in corpus.manifest.shards]
    groups = [[f.row_group(i).num_rows for i in range(f.num_row_groups)] for f in footers]
    assert groups == [[1024, 1024], [1024, 1024], [1024, 880]]


def test_equal_rows_and_options_give_equal_bytes(tmp_path: Path) -> None:
    shards = []
    for name, cut in (("a", 5), ("b", 9)):
        batch = all_types.rows()
        with tokenyard.CorpusWriter(tmp_path / name, format="parquet", schema=all_types.schema()) as w:
            w.write_batch(batch.slice(0, cut))
            w.write_batch(batch.slice(cut, len(batch)))
        shards.append(shard_of(tokenyard.open_corpus(tmp_path / name)).read_bytes())
    assert shards[0] == shards[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "brotli"}, "'zstd', 'lz4', 'snappy' or 'none'"),
        ({"row_group_rows": 0}, "row_group_rows"),
        ({"compression_level": 99}, "compression_level"),
        ({"compression": "lz4", "compression_level": 3}, "compression_level belongs to zstd, lz4 has none"),
        ({"row_groups": 5}, "no option row_groups; it has .*row_group_rows"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tokenyard.CorpusWriter(tmp_path / "c", format="parquet", schema=Schema(), **options)


def test_text_that_is_not_utf8_is_refused_on_writing(tmp_path: Path) -> None:
    column = Column(
        type=FieldType("string"), values=np.frombuffer(b"ok\xff", np.uint8), offsets=np.array([0, 2, 3], np.int64)
    )
    batch = RowBatch(tokens=np.zeros(2, np.uint16), offsets=offsets_of([1, 1]), fields={"t": column})
    with pytest.raises(SchemaError, match="'t' holds text that is not UTF-8"):
        write(tmp_path / "c", batch, Schema(token_dtype="uint16", fields={"t": "string"}))
    assert not (tmp_path / "c").exists()


def test_a_file_too_large_for_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
        with pytest.raises(StorageError, match=r"can't write .*shard-00000\.parquet: .*smaller shards"):
            write(tmp_path / "c", rows([1000] * 50))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "c").exists()


# ---- reading ----


def test_a_walk_in_order_decodes_each_row_group_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = write(tmp_path / "c", rows([4] * 1000), row_group_rows=250)
    decoded = []
    decode = parquet_reader.decode

    def counted(path: Path, reader: Any, group: int, *rest: Any) -> Any:
        decoded.append(group)
        return decode(path, reader, group, *rest)

    monkeypatch.setattr(parquet_reader, "decode", counted)
    found = [
        row for start in range(0, 1000, 7) for b in corpus.batches(start, min(start + 7, 1000)) for row in b.lengths
    ]
    assert len(found) == 1000
    assert decoded == [0, 1, 2, 3]


def open_shards(folder: Path) -> list[str]:
    """The files of a folder that this process holds open."""
    found = []
    for handle in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{handle}"))
        except FileNotFoundError:  # that of the listing itself
            continue
    return [f for f in found if f.startswith(str(folder))]


def test_a_row_group_half_walked_is_closed_when_its_corpus_goes(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", rows([4] * 100))
    corpus.row(3)
    assert len(open_shards(tmp_path)) == 1
    del corpus
    gc.collect()
    assert open_shards(tmp_path) == []


def test_a_row_group_walked_to_its_end_or_begun_anew_is_closed(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", rows([4] * 100))
    for row in (50, 3, 7, 2):
        corpus.row(row)
        assert len(open_shards(tmp_path)) == 1
    list(corpus.batches())
    assert open_shards(tmp_path) == []


def test_few_row_groups_stay_open_at_a_time(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", rows([4] * 100), row_group_rows=5)
    for row in range(0, 100, 5):
        corpus.row(row)
    assert len(open_shards(tmp_path)) == 8


def test_rows_in_any_order_are_the_rows(tmp_path: Path) -> None:
    batch = rows(list(range(60)))
    corpus = write(tmp_path / "c", batch, row_group_rows=16)
    for start, stop in [(20, 30), (5, 6), (0, 60), (59, 60), (31, 33), (33, 40), (32, 33), (10, 10)]:
        parts = [t for b in corpus.batches(start, stop) for t in b.tokens.tolist()]
        assert parts == batch.tokens[batch.offsets[start] : batch.offsets[stop]].tolist()


def test_a_damaged_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", rows([100] * 50))
    flip(shard_of(corpus), 2_000)
    corpus = tokenyard.open_corpus(tmp_path / "c")
    with pytest.raises(DataError, match=r"shard-00000\.parquet: row group 0 can't be decoded .*CRC checksum.*restore"):
        corpus.gather_rows(np.arange(3))
    with pytest.raises(DataError, match=r"shard-00000\.parquet: row group 0 can't be decoded .*CRC checksum"):
        list(corpus.batches())


def test_a_gather_decodes_no_other_column(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", all_types.rows(), all_types.schema())
    footer = pq.read_metadata(shard_of(corpus)).row_group(0)
    text = next(footer.column(i) for i in range(footer.num_columns) if footer.column(i).path_in_schema == "text")
    flip(shard_of(corpus), text.dictionary_page_offset + text.total_compressed_size - 5)
    corpus = tokenyard.open_corpus(tmp_path / "c")
    assert corpus.gather_rows(np.array([0]))[0].tolist() == all_types.TOKENS[0]
    assert corpus.gather_rows(np.array([0]), "loss_mask")[0].tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="can't be decoded"):
        corpus.row(0)


def test_a_file_of_the_same_size_but_other_rows_is_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path / "a", rows([3, 5]))
    other = write(tmp_path / "b", rows([5, 3]))
    shard = shard_of(corpus)
    size = shard.stat().st_size
    shard.write_bytes(shard_of(other).read_bytes())
    assert shard.stat().st_size == size
    corpus = tokenyard.open_corpus(tmp_path / "a")
    with pytest.raises(DataError, match=r"row group 0 holds 2 rows of 8 uint16 items of tokens.*was changed"):
        corpus.gather_rows(np.array([0]))
    with pytest.raises(DataError, match=r"row group 0, row 0 and after: rows have other lengths than the index says"):
        corpus.row(0)


def test_a_file_that_lost_a_column_is_refused(tmp_path: Path) -> None:
    schema = Schema(token_dtype="uint16", fields={"n": "int64"})
    batch = rows([3, 5])
    fields = {"n": Column(type=FieldType("int64"), values=np.arange(2))}
    corpus = write(tmp_path / "a", RowBatch(tokens=batch.tokens, offsets=batch.offsets, fields=fields), schema)
    table = pq.read_table(shard_of(corpus)).drop_columns(["n"])
    pq.write_table(table, shard_of(corpus), store_schema=False)
    manifest = tmp_path / "a/.tokenyard/manifest.json"
    size = corpus.manifest.shards[0].files[0].bytes
    manifest.write_text(manifest.read_text().replace(str(size), str(shard_of(corpus).stat().st_size)))
    corpus = tokenyard.open_corpus(tmp_path / "a")
    with pytest.raises(DataError, match="no column n any more; the file was changed"):
        corpus.row(0)


LEAVE_IN_MID_FILE = """
import sys, tokenyard
corpus = tokenyard.open_corpus(sys.argv[1])
print(len(next(corpus.batches())))
"""


def test_leaving_after_one_batch_ends_the_process_each_time(tmp_path: Path) -> None:
    write(tmp_path / "c", rows([20] * 400), row_group_rows=80)
    for _ in range(5):
        command = [sys.executable, "-c", LEAVE_IN_MID_FILE, str(tmp_path / "c")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "80\n", "")
