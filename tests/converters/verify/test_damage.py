"""Every kind of damage, in every format: full verification names the shard, quick finds what it says it finds."""

import json
import shutil

import numpy as np
import pytest

import tokenyard
from tests.converters.verify.made import (
    BAD,
    DAMAGES,
    FORMATS,
    OTHER,
    cut,
    edit_manifest,
    exchange,
    flip,
    flip_in_data,
    remove,
    shard_file,
    write,
)
from tokenyard.converters.verify import verify
from tokenyard.schema import Schema

NAMES = [d.do.__name__ for d in DAMAGES]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A corpus of several shards in each format."""
    home = tmp_path_factory.mktemp("whole")
    return {format: write(home / format, format) for format in FORMATS}


@pytest.fixture
def corpus(whole, tmp_path):
    """Makes copies that may be damaged."""
    return lambda format: shutil.copytree(whole[format], tmp_path / format)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_whole_corpus_passes(whole, format, workers):
    for quick in (False, True):
        report = verify(whole[format], quick=quick, num_workers=workers)
        assert report.problems == ()
        assert report.ok
        assert report.num_rows == 3000
        assert report.digest == (None if quick else report.expected_digest)
        assert ("no shard was decoded" in "".join(report.notes)) == quick


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("damage", DAMAGES, ids=NAMES)
def test_full_verification_names_the_damaged_shard_and_no_other(corpus, format, damage):
    path = corpus(format)
    damage.do(path)
    report = verify(path)
    assert not report.ok
    assert report.damaged
    assert report.bad_shards == damage.bad
    shards = tokenyard.open_corpus(path).manifest.shards
    for problem in report.problems:
        files = [*shards[BAD].files, shards[BAD].index]
        assert any(str(path / file.name) in str(problem) for file in files)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("damage", DAMAGES, ids=NAMES)
def test_quick_verification_finds_what_needs_no_decoding(corpus, format, damage):
    path = corpus(format)
    damage.do(path)
    report = verify(path, quick=True)
    assert report.bad_shards == (damage.bad if damage.quick else ())
    assert report.ok != damage.quick


@pytest.mark.parametrize("workers", [1, 2])
def test_all_damaged_shards_are_told_and_not_the_first_alone(corpus, workers):
    path = corpus("npy")
    shards = tokenyard.open_corpus(path).manifest.shards
    assert len(shards) > 4
    (path / shards[0].name).unlink()
    flip(path / shards[2].name, -1)
    flip(path / shards[4].index.name, -9)
    report = verify(path, num_workers=workers)
    assert report.bad_shards == (0, 2, 4)
    assert [p.file for p in report.problems] == [shards[0].name, shards[2].name, shards[4].index.name]
    begins = tokenyard.open_corpus(path).shard_row_starts
    assert [p.rows for p in report.problems] == [(begins[i], begins[i + 1] - 1) for i in (0, 2, 4)]


@pytest.mark.parametrize("format", FORMATS)
def test_exchanged_shards_are_both_named(corpus, format):
    path = corpus(format)
    same_size = shard_file(path, BAD).stat().st_size == shard_file(path, OTHER).stat().st_size
    assert same_size == (format != "parquet")
    exchange(path)
    assert verify(path).bad_shards == (BAD, OTHER)
    assert verify(path, quick=True).bad_shards == (() if same_size else (BAD, OTHER))


def test_cut_and_missing_shards_are_told_with_both_sizes(corpus):
    path = corpus("mds")
    size = shard_file(path, BAD).stat().st_size
    cut(path)
    (problem,) = verify(path).problems
    assert f"{size - 10} bytes, expected {size}" in str(problem)
    remove(path)
    (problem,) = verify(path).problems
    assert "no such file" in str(problem)


def test_a_checksum_that_differs_is_told_with_the_one_expected(corpus):
    path = corpus("npy")
    flip_in_data(path)
    (problem,) = verify(path).problems
    promised = tokenyard.open_corpus(path).manifest.shards[BAD].files[0].checksum
    assert "its checksum is blake3:" in str(problem)
    assert f"the manifest says {promised}; restore this file" in str(problem)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("quick", [False, True])
def test_a_file_that_would_be_taken_for_a_shard_is_told(corpus, format, quick):
    path = corpus(format)
    shard = shard_file(path, BAD)
    extra = shard.with_name("shard-99999" + "".join(shard.suffixes))
    shutil.copy(shard, extra)
    (path / "README.md").write_text("of no format")
    (problem,) = verify(path, quick=quick).problems
    assert problem.file == extra.name
    assert f"{extra}: the manifest doesn't name it" in str(problem)


def test_what_streaming_dataset_unpacked_beside_a_compressed_shard_is_no_stranger(tmp_path):
    path = write(tmp_path / "corpus", "mds", compression="zstd")
    shutil.copy(shard_file(path, 0), path / "shard-00000.mds")
    assert verify(path).ok
    shutil.copy(shard_file(path, 0), path / "shard-99999.mds")
    assert [p.file for p in verify(path).problems] == ["shard-99999.mds"]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("damage", ["overwrite", "keep the size", "delete"])
def test_a_file_of_the_native_layout_beside_the_shards_is_checked(corpus, damage, quick):
    path = corpus("mds")
    assert verify(path, quick=quick).num_files == 2 * len(tokenyard.open_corpus(path).manifest.shards) + 1
    index = path / "index.json"
    if damage == "delete":
        index.unlink()
    else:
        index.write_bytes(b"{}" if damage == "overwrite" else index.read_bytes().replace(b"samples", b"Samples"))
    (problem,) = verify(path, quick=quick).problems
    assert problem.file == "index.json"
    assert str(index) in str(problem)
    assert {"overwrite": "2 bytes", "keep the size": "checksum", "delete": "no such file"}[damage] in str(problem)


@pytest.mark.parametrize("format", FORMATS)
def test_a_manifest_with_shards_in_another_order_is_told_by_the_digest(corpus, format):
    path = corpus(format)
    edit_manifest(path, lambda said: said["shards"].insert(0, said["shards"].pop(OTHER)))
    assert verify(path, quick=True).ok
    (problem,) = verify(path).problems
    assert problem.file == ".tokenyard/manifest.json"
    assert "every file is as the manifest says, but the rows differ from the manifest's digest (tokens: ty1:" in str(
        problem
    )
    assert "or the order of its shards; restore it" in str(problem)


def test_a_manifest_that_does_not_add_up_is_a_problem_and_no_error(corpus):
    path = corpus("npy")
    file = path / ".tokenyard" / "manifest.json"
    said = json.loads(file.read_bytes())
    said["rows"] += 1
    file.write_text(json.dumps(said))
    report = verify(path, quick=True)
    assert "but the shards sum to 3000" in str(report.problems[0])
    assert report.problems[0].file == ".tokenyard/manifest.json"
    assert report.damaged
    assert report.num_shards == 0
    assert "no shard was looked at" in report.notes[0]


def test_damage_outside_of_the_rows_is_told_as_such(corpus):
    path = corpus("webdataset")
    flip(shard_file(path, BAD), 100)  # the mode of the first member
    report = verify(path)
    assert report.bad_shards == (BAD,)
    assert report.digest == report.expected_digest
    assert "what changed are bytes outside of them" in report.notes[0]


@pytest.mark.parametrize(("format", "first", "last"), [("jsonl", 1024, 2047), ("parquet", 1024, 2047)])
def test_rows_that_can_not_be_decoded_are_told_apart_from_their_neighbours(tmp_path, format, first, last):
    path = write(tmp_path / "corpus", format, shard_bytes=1 << 20)
    file = shard_file(path, 0)
    data = file.read_bytes()
    at = data.index(b"\n", len(data) // 2) + 1 if format == "jsonl" else len(data) // 2
    file.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    report = verify(path)
    by_checksum, by_row = report.problems
    assert "checksum" in str(by_checksum)
    assert by_row.rows == (first, last)
    assert f"rows {first} .. {last} can't be read: {file}" in str(by_row)


def test_negative_ids_are_told_with_their_row(tmp_path):
    rows = np.arange(40, dtype=np.int32).reshape(10, 4)
    rows[7, 2] = -5
    np.save(tmp_path / "tokens.npy", rows)
    (problem,) = verify(tmp_path).problems
    assert problem.rows == (7, 7)
    assert "row 7: token id -5 is outside 0 .. 4294967295" in str(problem)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_id_past_the_vocabulary_is_named_in_each_shard(tmp_path, workers):
    schema = Schema(token_dtype="uint16", vocab_size=60000)
    with tokenyard.CorpusWriter(tmp_path / "corpus", format="npy", schema=schema, shard_bytes=2000) as writer:
        for i in range(5000):
            writer.write([] if i % 3 else [99, 100 + i] if i >= 4900 else [0, 99])
    edit_manifest(tmp_path / "corpus", lambda said: said["schema"].update(vocab_size=100))
    report = verify(tmp_path / "corpus", num_workers=workers)
    corpus = tokenyard.open_corpus(tmp_path / "corpus")
    first = int(np.searchsorted(corpus.shard_row_starts, 4902, side="right")) - 1
    assert report.bad_shards == tuple(range(first, len(corpus.manifest.shards)))
    assert str(report.problems[0]) == (
        f"{tmp_path / 'corpus' / corpus.manifest.shards[first].name}: row 4902 holds the id 5002, but the schema's "
        "vocab_size is 100: the ids are another tokenizer's, or the schema is wrong"
    )
    assert report.problems[0].rows == (4902, 4902)
    assert report.digest == report.expected_digest


def test_an_empty_corpus_passes(tmp_path):
    path = write(tmp_path / "corpus", num_rows=0)
    for quick in (False, True):
        assert verify(path, quick=quick).ok


def test_progress_reaches_the_end(corpus):
    told = []
    verify(corpus("mds"), on_progress=told.append)
    assert told[-1].share == 1.0
    assert told[-1].rows == 3000
