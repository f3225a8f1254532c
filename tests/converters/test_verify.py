"""Verification: a whole corpus passes; whatever is damaged is named, by file or by rows."""

import numpy as np
import pytest

import tokenyard
from tokenyard.converters.convert import convert
from tokenyard.converters.verify import verify
from tokenyard.schema import Schema

FORMATS = ("npy", "mds", "webdataset", "parquet", "jsonl", "csv")


def write(path, format="npy", num_rows=3000, changed=None):
    rng = np.random.default_rng(0)
    with tokenyard.CorpusWriter(path, format=format, schema=Schema(token_dtype="uint16"), shard_bytes=20_000) as writer:
        for i in range(num_rows):
            row = rng.integers(0, 1000, i % 7)
            writer.write(row + 1 if i == changed else row)
    return path


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_whole_corpus_passes(tmp_path, format, workers):
    report = verify(write(tmp_path / "corpus", format), num_workers=workers)
    assert report.problems == ()
    assert report.ok
    assert report.num_rows == 3000
    assert report.digest == report.expected_digest


@pytest.mark.parametrize("format", FORMATS)
def test_one_flipped_byte_in_a_shard_is_found_and_the_shard_named(tmp_path, format):
    path = write(tmp_path / "corpus", format)
    shard = path / tokenyard.open_corpus(path).manifest.shards[1].name
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0x10
    shard.write_bytes(data)
    report = verify(path)
    assert not report.ok
    assert any(shard.name in p and "checksum" in p for p in report.problems)


@pytest.mark.parametrize("format", FORMATS)
def test_a_cut_or_missing_shard_is_named_with_both_sizes(tmp_path, format):
    path = write(tmp_path / "corpus", format)
    names = [s.name for s in tokenyard.open_corpus(path).manifest.shards]
    size = (path / names[0]).stat().st_size
    (path / names[0]).write_bytes((path / names[0]).read_bytes()[:-10])
    (path / names[1]).unlink()
    problems = verify(path).problems
    assert any(names[0] in p and f"{size - 10} bytes" in p and str(size) in p for p in problems)
    assert any(names[1] in p and "no such file" in p for p in problems)


def test_a_damaged_index_is_named(tmp_path):
    path = write(tmp_path / "corpus")
    index = path / ".tokenyard" / "index" / "shard-00000.idx"
    index.write_bytes(index.read_bytes()[:-1] + b"\7")
    assert any("shard-00000.idx" in p for p in verify(path).problems)


def test_the_same_rows_in_another_format_are_equal(tmp_path):
    path = write(tmp_path / "npy")
    convert(path, tmp_path / "mds", to="mds")
    assert verify(tmp_path / "mds", against=path).ok


def test_other_rows_are_told_apart(tmp_path):
    report = verify(write(tmp_path / "a"), against=write(tmp_path / "b", changed=2000))
    assert not report.ok
    assert any(p.startswith("differs from") and "tokens: ty1:" in p for p in report.problems)


def test_a_corpus_that_others_made_is_compared_by_reading_it(tmp_path):
    rows = [np.arange(n, dtype=np.int32) for n in (3, 1, 2)]
    (tmp_path / "others").mkdir()
    for i, row in enumerate(rows):
        np.save(tmp_path / "others" / f"tokens_{i}.npy", row)
    convert(tmp_path / "others", tmp_path / "ours", to="mds")
    assert verify(tmp_path / "ours", against=tmp_path / "others").ok
    assert verify(tmp_path / "others", against=tmp_path / "ours").ok
    np.save(tmp_path / "others" / "tokens_1.npy", np.array([9], np.int32))
    assert not verify(tmp_path / "ours", against=tmp_path / "others").ok


@pytest.mark.parametrize("damage", ["overwrite", "keep the size", "delete"])
def test_a_file_of_the_native_layout_beside_the_shards_is_checked(tmp_path, damage):
    path = write(tmp_path / "corpus", "mds")
    assert verify(path).num_files == 2 * len(tokenyard.open_corpus(path).manifest.shards) + 1
    index = path / "index.json"
    if damage == "delete":
        index.unlink()
    else:
        index.write_bytes(b"{}" if damage == "overwrite" else index.read_bytes().replace(b"samples", b"Samples"))
    problems = verify(path).problems
    assert len(problems) == 1
    assert str(index) in problems[0]
    assert {"overwrite": "2 bytes", "keep the size": "checksum", "delete": "no such file"}[damage] in problems[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_id_past_the_vocabulary_is_named_with_its_row_and_shard(tmp_path, workers):
    schema = Schema(token_dtype="uint16", vocab_size=60000)
    with tokenyard.CorpusWriter(tmp_path / "corpus", format="npy", schema=schema, shard_bytes=2000) as writer:
        for i in range(5000):
            writer.write([] if i % 3 else [99, 100 + i] if i >= 4000 else [0, 99])
    manifest = tmp_path / "corpus" / ".tokenyard" / "manifest.json"
    said = manifest.read_text()
    assert said.count('"vocab_size": 60000') == 1
    manifest.write_text(said.replace('"vocab_size": 60000', '"vocab_size": 100'))
    report = verify(tmp_path / "corpus", num_workers=workers)
    corpus = tokenyard.open_corpus(tmp_path / "corpus")
    shard = np.searchsorted(corpus.shard_row_starts, 4002, side="right") - 1
    assert report.problems == (
        f"{tmp_path / 'corpus' / corpus.manifest.shards[shard].name}: row 4002 holds the id 4102, but the schema's "
        "vocab_size is 100: the ids are another tokenizer's, or the schema is wrong",
    )
    assert report.digest == report.expected_digest
