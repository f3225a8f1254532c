"""Corpora without a manifest: what can be verified is, bad shards are left out one by one, and the limits are told."""

import shutil

import numpy as np
import pytest

import tokenyard
from tests.converters.verify.made import BAD, FORMATS, flip, flip_in_data, shard_file, write
from tokenyard.converters.verify import verify
from tokenyard.corpus.indexing import index_corpus

SAYS_WHERE_IT_ENDS = ("npy", "mds", "webdataset", "parquet")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    home = tmp_path_factory.mktemp("whole")
    return {format: write(home / format, format) for format in FORMATS}


@pytest.fixture
def others(whole, tmp_path, monkeypatch):
    """Makes copies without anything of ours, and the names of their shards."""
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))

    def make(format):
        path = shutil.copytree(whole[format], tmp_path / format)
        names = [shard.name for shard in tokenyard.open_corpus(path).manifest.shards]
        shutil.rmtree(path / ".tokenyard")
        return path, names

    return make


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("quick", [False, True])
def test_a_whole_one_passes_and_what_can_not_be_known_is_told(others, whole, format, quick):
    path, _ = others(format)
    read = {"split": {"length": 6}} if format == "npy" else {}
    report = verify(path, quick=quick, read=read)
    assert report.ok
    assert report.num_rows == 3000
    assert report.expected_digest is None
    assert report.digest == (None if quick else tokenyard.open_corpus(whole[format]).digest)
    assert (
        "there is no manifest, so no checksum to hold it to: a byte that changed inside tokens can't be seen"
        in report.notes[0]
    )


@pytest.mark.parametrize("format", SAYS_WHERE_IT_ENDS)
@pytest.mark.parametrize("quick", [False, True])
def test_every_cut_shard_is_told_and_the_others_are_read(others, format, quick):
    path, names = others(format)
    for number in (1, 3):
        (path / names[number]).write_bytes((path / names[number]).read_bytes()[:-600])
    report = verify(path, quick=quick)
    assert sorted(p.file for p in report.problems) == [names[1], names[3]]
    assert all(str(path / p.file) in str(p) for p in report.problems)
    assert report.num_shards == len(names) - 2
    assert 0 < report.num_rows < 3000


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_line_that_is_no_row_is_told_with_its_number(others, format):
    path, names = others(format)
    lines = (path / names[2]).read_bytes().split(b"\n")
    lines[4] = b"{nonsense"
    (path / names[2]).write_bytes(b"\n".join(lines))
    (problem,) = verify(path).problems
    assert problem.file == names[2]
    assert f"{path / names[2]}: line 5" in str(problem)


def test_a_shard_that_the_native_index_names_and_that_is_gone_is_told(others):
    path, names = others("mds")
    (path / names[1]).unlink()
    (path / names[2]).unlink()
    report = verify(path)
    assert [p.file for p in report.problems] == [names[1], names[2]]
    assert report.num_shards == len(names) - 2


def test_a_changed_token_is_not_seen_before_it_was_indexed_and_seen_after(others):
    path, names = others("npy")
    flip(path / names[1], -1, 1)
    assert verify(path).ok
    index_corpus(path)
    flip(path / names[1], -1, 1)
    report = verify(path)
    assert report.bad_shards == (1,)
    assert report.notes == ()


@pytest.mark.parametrize("format", ["npy", "mds"])
def test_an_indexed_one_whose_shards_changed_is_verified_all_the_same(others, format):
    path, names = others(format)
    index_corpus(path)
    (path / names[1]).unlink()
    flip(path / names[3], -1, 1)
    report = verify(path)
    assert report.bad_shards == (1, 3)
    assert any("no such file" in str(p) for p in report.problems)
    assert any("its checksum is" in str(p) for p in report.problems)
    assert report.problems[0].file is None


def test_a_page_that_changed_is_told_by_its_own_checksum(others):
    path, names = others("parquet")
    data = (path / names[BAD]).read_bytes()
    flip(path / names[BAD], len(data) // 3)
    (problem,) = verify(path).problems
    assert problem.file == names[BAD]


def test_nothing_readable_at_all_is_a_problem_too(others):
    path, names = others("npy")
    for name in names:
        (path / name).write_bytes(b"nonsense")
    report = verify(path)
    assert report.damaged
    assert "no .npy header" in str(report.problems[0])
    assert "no shard was looked at" in report.notes[0]


@pytest.mark.parametrize("format", ["npy", "mds", "webdataset", "parquet"])
def test_the_good_part_of_one_becomes_a_corpus_of_ours(others, tmp_path, format):
    path, names = others(format)
    (path / names[BAD]).write_bytes((path / names[BAD]).read_bytes()[:-600])
    report = verify(path, quarantine=tmp_path / "good")
    assert report.quarantine is not None
    assert report.quarantine.shards == (names[BAD],)
    assert (report.quarantine.num_rows, report.quarantine.num_uncounted_shards) == (0, 1)
    good = tokenyard.open_corpus(tmp_path / "good")
    assert len(good) == report.num_rows
    assert good.manifest.provenance["lost"]["num_uncounted_shards"] == 1
    assert verify(tmp_path / "good").ok
    shutil.rmtree(tmp_path / "good" / ".tokenyard")
    assert len(tokenyard.open_corpus(tmp_path / "good")) == report.num_rows


def test_a_single_file_is_verified_as_the_corpus_that_it_is(others):
    path, names = others("npy")
    report = verify(path / names[0])
    assert report.ok
    assert report.num_shards == 1


def test_one_that_is_no_corpus_is_an_error(tmp_path):
    with pytest.raises(tokenyard.TokenyardError, match="no such file or folder"):
        verify(tmp_path / "nothing")


def test_a_shard_of_ours_is_damaged_in_a_corpus_given_open(whole, tmp_path):
    path = shutil.copytree(whole["npy"], tmp_path / "npy")
    flip_in_data(path)
    report = verify(tokenyard.open_corpus(path))
    assert report.bad_shards == (BAD,)
    assert str(shard_file(path, BAD)) in str(report.problems[0])
    assert np.all(np.array(report.problems[0].rows) >= 0)
