"""Conversion: any format to any format, the same rows and fields, the same bytes however many workers."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenyard
from tokenyard.converters.convert import convert
from tokenyard.converters.job import plan_rows
from tokenyard.errors import (
    ConfigError,
    DataError,
    DestinationExistsError,
    SchemaError,
    UnknownFormatError,
    VerificationError,
)
from tokenyard.schema import Schema

FORMATS = ("npy", "mds", "webdataset", "parquet", "jsonl", "csv")
FIELDS = {"source": "string", "loss_mask": "uint8[]", "score": "float64?", "blob": "bytes?", "n": "int64"}


def write(path, format, num_rows=2500, seed=0, token_dtype="uint16", **options):
    rng = np.random.default_rng(seed)
    high = min(int(np.iinfo(token_dtype).max), 2**32 - 1)
    schema = Schema(token_dtype=token_dtype, vocab_size=high + 1, eos_token_id=2, fields=FIELDS)
    with tokenyard.CorpusWriter(path, format=format, schema=schema, **options) as writer:
        for i in range(num_rows):
            tokens = rng.integers(0, high, rng.integers(0, 9), endpoint=True)
            writer.write(
                tokens,
                source='日本 "q"\n' * (i % 3),
                loss_mask=tokens % 2,
                score=None if i % 5 == 0 else i / 3,
                blob=None if i % 7 == 0 else bytes([i % 256, 0]),
                n=-i,
            )
    return path


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    return {format: write(folder / format, format, shard_bytes=30_000) for format in FORMATS}


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_every_format_converts_to_every_format_with_equal_digests(corpora, tmp_path, source, to):
    report = convert(corpora[source], tmp_path / "out", to=to, shard_bytes=20_000)
    before, after = tokenyard.open_corpus(corpora["npy"]), tokenyard.open_corpus(tmp_path / "out")
    assert after.manifest.digests == before.manifest.digests
    assert report.source_digest == report.digest == before.digest
    assert after.schema == before.schema
    for i in (0, 1023, 1024, 2499):
        ours, theirs = after.row(i), before.row(i)
        assert ours["tokens"].tolist() == theirs["tokens"].tolist()
        assert ours["loss_mask"].tolist() == theirs["loss_mask"].tolist()
        assert [ours[n] for n in ("source", "score", "blob", "n")] == [
            theirs[n] for n in ("source", "score", "blob", "n")
        ]


@pytest.mark.parametrize("to", FORMATS)
def test_the_bytes_do_not_depend_on_the_number_of_workers(corpora, tmp_path, to):
    for workers in (1, 2):
        convert(corpora["npy"], tmp_path / str(workers), to=to, num_workers=workers, shard_bytes=30_000)
    assert len(tokenyard.open_corpus(tmp_path / "1").manifest.shards) > 2
    assert tree(tmp_path / "1") == tree(tmp_path / "2")


rows = st.lists(st.lists(st.sampled_from([0, 1, 255, 65534, 65535]) | st.integers(0, 65535), max_size=20), max_size=40)


@settings(max_examples=15)
@given(rows=rows, chain=st.lists(st.sampled_from(FORMATS), min_size=2, max_size=5), data=st.data())
def test_any_chain_of_conversions_keeps_the_digest(tmp_path_factory, rows, chain, data):
    folder = tmp_path_factory.mktemp("chain")
    schema = Schema(token_dtype="uint16", fields={"text": "string?", "mask": "int8[]"})
    with tokenyard.CorpusWriter(folder / "0", format=chain[0], schema=schema) as writer:
        for row in rows:
            text = data.draw(st.none() | st.text(st.characters(codec="utf-8"), max_size=8))
            writer.write(row, text=text, mask=np.resize([1, -1, 0], len(row)))
    first = tokenyard.open_corpus(folder / "0").manifest.digests
    for step, to in enumerate(chain[1:], 1):
        shard_bytes = data.draw(st.integers(1, 2000))
        convert(folder / str(step - 1), folder / str(step), to=to, shard_bytes=shard_bytes)
        assert tokenyard.open_corpus(folder / str(step)).manifest.digests == first
    shutil.rmtree(folder)


def test_no_rows_convert_to_no_rows(tmp_path):
    write(tmp_path / "0", "npy", num_rows=0)
    for i, to in enumerate(FORMATS):
        report = convert(tmp_path / str(i), tmp_path / str(i + 1), to=to)
        assert report.num_rows == 0
        assert report.digest == "ty1:6ad5897c57530f8f40cdc4435eaa6a99f1fbab9a2fdf3607147c7f1fc915997f"


def test_narrowing_is_explicit_and_checked(tmp_path):
    with tokenyard.CorpusWriter(tmp_path / "wide", format="npy", schema=Schema(token_dtype="uint32")) as writer:
        for ids in ([1], [2, 65536]):
            writer.write(ids)
    convert(tmp_path / "wide", tmp_path / "same", to="mds")
    assert tokenyard.open_corpus(tmp_path / "same").schema.token_dtype == "uint32"
    with pytest.raises(SchemaError, match=r"row 1.*id 65536 does not fit uint16"):
        convert(tmp_path / "wide", tmp_path / "narrow", to="mds", token_dtype="uint16")
    assert not (tmp_path / "narrow").exists()


def test_a_source_that_is_not_what_its_manifest_promises_is_not_converted(tmp_path):
    path = write(tmp_path / "npy", "npy", num_rows=10)
    shard = path / "shard-00000.npy"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(VerificationError, match=r"don't have the digest that its manifest promises.*tokenyard verify"):
        convert(path, tmp_path / "out", to="mds")
    assert not (tmp_path / "out").exists()


def test_a_shard_that_reads_back_differently_is_not_published(tmp_path, monkeypatch):
    from tokenyard.formats import npy

    honest = npy.Npy.write_shard

    def lossy(self, folder, stem, batches, schema, options):
        tokens = batches[0].tokens.copy()
        tokens[0] ^= 1
        return honest(self, folder, stem, [replace(batches[0], tokens=tokens), *batches[1:]], schema, options)

    path = write(tmp_path / "mds", "mds", num_rows=10)
    monkeypatch.setattr(npy.Npy, "write_shard", lossy)
    with pytest.raises(VerificationError, match=r"shard-00000-00000.npy read back differently"):
        convert(path, tmp_path / "out", to="npy")
    assert not (tmp_path / "out").exists()


def test_files_and_folders_are_synced_before_the_manifest_names_them(tmp_path, monkeypatch):
    write(tmp_path / "src", "npy")
    synced, published, place = set(), {}, tmp_path / "new/dst"
    fsync, replace_file = os.fsync, os.replace

    def note_sync(handle):
        synced.add(os.fstat(handle).st_ino)
        fsync(handle)

    def note_name(source, target):
        if str(target).endswith("manifest.json"):
            # Of the ledger lines may be lost; it goes with the job.
            lost = {"job", "tmp"}
            kept = [p for p in (tmp_path / "new").rglob("*") if not lost & set(p.relative_to(tmp_path).parts)]
            published.update({p.name: p.stat().st_ino in synced for p in [tmp_path, place.parent, *kept]})
        replace_file(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_name)
    convert(tmp_path / "src", place, to="mds", shard_bytes=20_000)
    shard = {"index.json", "job.json", "shard-00000-00000.mds", "shard-00000-00000.idx"}
    assert {*shard, tmp_path.name, "new", "dst", "index"} <= published.keys()
    assert [name for name, was_synced in published.items() if not was_synced] == []


@pytest.mark.parametrize("fields", [{}, {"n": "int64"}])
def test_a_plan_reads_rows_only_to_see_how_large_extra_fields_are(tmp_path, monkeypatch, fields):
    schema = Schema(token_dtype="uint16", vocab_size=100, eos_token_id=2, fields=fields)
    with tokenyard.CorpusWriter(tmp_path / "src", format="parquet", schema=schema) as writer:
        for length in range(3000):
            writer.write([1] * (length % 7), **dict.fromkeys(fields, 1))
    corpus, read = tokenyard.open_corpus(tmp_path / "src"), []
    batches = tokenyard.Corpus.batches
    monkeypatch.setattr(tokenyard.Corpus, "batches", lambda *given: read.append(given[1:]) or batches(*given))
    cost = 16 + 8 * len(fields)
    planned = list(plan_rows(corpus, 40_000, 2))
    assert read == ([(0, 1024)] if fields else [])
    assert (planned[0].start, planned[-1].stop) == (0, 3000)
    sizes = [sum(int(n) * 2 + cost for n in corpus.row_lengths(rows.start, rows.stop)) for rows in planned]
    assert max(sizes) <= 40_000 < sizes[0] + 1024 * (cost + 12)


def test_a_missing_shard_stops_the_conversion_and_leaves_nothing(tmp_path):
    path = write(tmp_path / "npy", "npy", shard_bytes=30_000)
    (path / "shard-00001.npy").unlink()
    with pytest.raises(OSError, match=r"shard-00001\.npy: no such file"):
        convert(path, tmp_path / "out", to="mds", num_workers=2)
    assert not (tmp_path / "out").exists()


def test_an_existing_destination_is_replaced_only_when_asked_and_only_by_a_whole_corpus(tmp_path):
    path = write(tmp_path / "npy", "npy", num_rows=10)
    convert(path, tmp_path / "out", to="mds")
    before = tree(tmp_path / "out")
    with pytest.raises(DestinationExistsError, match="a corpus is there already; pass --overwrite"):
        convert(path, tmp_path / "out", to="parquet")
    damaged = write(tmp_path / "damaged", "npy", num_rows=20)
    (damaged / "shard-00000.npy").unlink()
    with pytest.raises(OSError, match="no such file"):
        convert(damaged, tmp_path / "out", to="parquet", overwrite=True)
    assert tree(tmp_path / "out") == before
    convert(path, tmp_path / "out", to="parquet", overwrite=True)
    assert tokenyard.open_corpus(tmp_path / "out").format == "parquet"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged", "npy", "out"]


def test_a_corpus_can_be_converted_onto_itself(tmp_path):
    path = write(tmp_path / "corpus", "npy", num_rows=10)
    digest = tokenyard.open_corpus(path).digest
    convert(path, path, to="csv", overwrite=True)
    assert tokenyard.open_corpus(path).digest == digest


def test_a_folder_that_is_no_corpus_is_never_replaced(tmp_path):
    path = write(tmp_path / "npy", "npy", num_rows=10)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    with pytest.raises(DestinationExistsError, match="not a tokenyard corpus is there already; choose another"):
        convert(path, tmp_path / "precious", to="mds", overwrite=True)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"


def test_wrong_names_say_what_there_is(tmp_path):
    path = write(tmp_path / "npy", "npy", num_rows=1)
    with pytest.raises(UnknownFormatError, match="did you mean 'parquet'"):
        convert(path, tmp_path / "out", to="parket")
    with pytest.raises(ConfigError, match="format npy has no option compresion; it has shard_bytes"):
        convert(path, tmp_path / "out", to="npy", compresion="zstd")
    with pytest.raises(ConfigError, match="num_workers must be 1 or more"):
        convert(path, tmp_path / "out", to="npy", num_workers=0)


def test_progress_counts_up_to_all_rows(corpora, tmp_path):
    seen = []
    convert(corpora["npy"], tmp_path / "out", to="mds", shard_bytes=30_000, on_progress=seen.append)
    assert len(seen) > 1
    assert [p.rows for p in seen] == sorted(p.rows for p in seen)
    assert seen[-1].rows == 2500
    assert seen[-1].share == 1.0


def test_a_foreign_corpus_converts_with_the_options_of_reading(tmp_path):
    (tmp_path / "others").mkdir()
    with open(tmp_path / "others" / "a.jsonl", "w") as file:
        for ids in ([1, 2], [], [70000]):
            file.write(json.dumps({"input_ids": ids, "url": "x"}) + "\n")
    convert(tmp_path / "others", tmp_path / "out", to="npy", read={"tokens": "input_ids", "fields": ()})
    corpus = tokenyard.open_corpus(tmp_path / "out")
    assert [corpus[i].tolist() for i in range(3)] == [[1, 2], [], [70000]]
    assert not corpus.schema.fields
    with pytest.raises(DataError):
        convert(tmp_path / "others", tmp_path / "none", to="npy", read={"tokens": "nope"})
