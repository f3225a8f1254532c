"""The good part of a damaged corpus: the same files under a manifest of its own, with the loss stated."""

import errno
import os
import shutil

import numpy as np
import pytest

import tokenyard
from tests.converters.verify.made import BAD, FORMATS, cut, flip_in_data, remove, shard_file, write
from tests.peers import run_in_peers
from tokenyard.converters.convert import convert
from tokenyard.converters.verify import verify
from tokenyard.errors import ConfigError, DestinationExistsError


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    home = tmp_path_factory.mktemp("whole")
    return {format: write(home / format, format) for format in FORMATS}


@pytest.fixture
def damaged(whole, tmp_path):
    """Makes a copy with one bad shard; gives its path, and the rows that are not in that shard."""

    def make(format):
        path = shutil.copytree(whole[format], tmp_path / format)
        corpus = tokenyard.open_corpus(whole[format])
        first, end = corpus.shard_row_starts[BAD : BAD + 2].tolist()
        rows = [corpus[i].tolist() for i in range(len(corpus)) if not first <= i < end]
        flip_in_data(path)
        return path, rows

    return make


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_good_shards_become_a_corpus_that_states_the_loss(damaged, tmp_path, format, workers):
    path, rows = damaged(format)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    source = tokenyard.open_corpus(path)
    report = verify(path, quarantine=tmp_path / "good", num_workers=workers)
    loss, bad = report.quarantine, source.manifest.shards[BAD]
    assert not report.ok
    assert loss is not None
    assert loss.path == str(tmp_path / "good")
    assert (loss.shards, loss.num_shards, loss.num_rows, loss.num_tokens) == (
        (bad.name,),
        1,
        bad.num_rows,
        bad.num_tokens,
    )
    good = tokenyard.open_corpus(tmp_path / "good")
    assert [row.tolist() for row in good] == rows
    assert good.digest != source.digest
    said = good.manifest.provenance
    assert said["job"] == "quarantine"
    assert said["source"]["id"] == source.digest
    assert said["lost"] == {
        "num_rows": bad.num_rows,
        "num_shards": 1,
        "num_tokens": bad.num_tokens,
        "num_uncounted_shards": 0,
        "shards": [bad.name],
    }
    assert {p: p.read_bytes() for p in before} == before
    assert verify(tmp_path / "good").ok


@pytest.mark.parametrize("format", FORMATS)
def test_it_is_converted_and_trained_on_like_any_other(damaged, tmp_path, format):
    path, rows = damaged(format)
    verify(path, quarantine=tmp_path / "good")
    report = convert(tmp_path / "good", tmp_path / "again", to="npy")
    assert report.num_rows == len(rows)
    loader = tokenyard.build_dataloader(
        {
            "data": {"path": str(tmp_path / "good"), "sample": {"mode": "rows"}},
            "order": {"global_batch_size": 4, "shuffle": "none"},
        },
        rank=0,
        world_size=1,
    )
    batch = next(iter(loader))
    assert batch["input_ids"].tolist()[0][: len(rows[0])] == rows[0]


def test_the_files_are_links_and_take_no_space(damaged, tmp_path):
    path, _ = damaged("npy")
    verify(path, quarantine=tmp_path / "good")
    for shard in tokenyard.open_corpus(tmp_path / "good").manifest.shards:
        assert (path / shard.name).samefile(tmp_path / "good" / shard.name)


def test_where_links_can_not_be_made_files_are_copied(damaged, tmp_path, monkeypatch):
    path, rows = damaged("mds")

    def no_links(*_):
        raise OSError(errno.EXDEV, "another device")

    monkeypatch.setattr(os, "link", no_links)
    verify(path, quarantine=tmp_path / "good")
    good = tokenyard.open_corpus(tmp_path / "good")
    assert len(good) == len(rows)
    assert not any((path / s.name).samefile(tmp_path / "good" / s.name) for s in good.manifest.shards)


def test_the_official_library_reads_the_good_part_of_mds(damaged, tmp_path):
    path, rows = damaged("mds")
    verify(path, quarantine=tmp_path / "good")
    code = (
        "import json, sys, streaming\n"
        "found = streaming.StreamingDataset(local=sys.argv[1], batch_size=1)\n"
        "print(json.dumps([found[i]['tokens'].tolist() for i in range(len(found))]))"
    )
    assert run_in_peers(code, tmp_path / "good") == rows


def test_a_damaged_file_beside_the_shards_loses_nothing(whole, tmp_path):
    path = shutil.copytree(whole["mds"], tmp_path / "mds")
    (path / "index.json").write_bytes(b"{}")
    loss = verify(path, quarantine=tmp_path / "good").quarantine
    assert loss is not None
    assert loss.num_shards == 0
    assert tokenyard.open_corpus(tmp_path / "good").digest == tokenyard.open_corpus(whole["mds"]).digest


def test_a_whole_corpus_gets_no_quarantine(whole, tmp_path):
    report = verify(whole["npy"], quarantine=tmp_path / "good")
    assert report.ok
    assert report.quarantine is None
    assert not (tmp_path / "good").exists()


def test_nothing_is_written_where_no_shard_is_whole(tmp_path):
    path = write(tmp_path / "corpus", num_rows=10)
    file = shard_file(path, 0)
    file.write_bytes(file.read_bytes()[:-1])
    report = verify(path, quarantine=tmp_path / "good")
    damage, failed = report.problems
    assert damage.shard == 0
    assert str(failed).startswith(f"no good part was made: {path}: none of its shards is whole, so nothing was written")
    assert (failed.is_damage, report.quarantine, (tmp_path / "good").exists()) == (False, None, False)


def test_a_wrong_manifest_is_no_reason_to_leave_out_any_shard(whole, tmp_path):
    path = shutil.copytree(whole["npy"], tmp_path / "npy")
    file = path / ".tokenyard" / "manifest.json"
    said = file.read_text()
    file.write_text(said.replace(tokenyard.open_corpus(path).digest, "ty1:" + "0" * 64))
    report = verify(path, quarantine=tmp_path / "good")
    assert report.quarantine is None
    assert f"nothing was written to {tmp_path / 'good'}: which shards are wrong can't be told" in report.notes


def test_a_place_that_is_taken_is_refused_before_anything_is_read(whole, tmp_path):
    (tmp_path / "good").mkdir()
    with pytest.raises(DestinationExistsError, match="something is there already; choose another place"):
        verify(whole["npy"], quarantine=tmp_path / "good")


def test_quick_writes_no_good_part_since_it_does_not_know_it(whole, tmp_path):
    with pytest.raises(
        ConfigError, match="s3://bucket/good: the good shards are linked there, so it is a folder of this"
    ):
        verify(whole["npy"], quarantine="s3://bucket/good")
    with pytest.raises(ConfigError, match="quarantine needs every shard read, which quick doesn't do"):
        verify(whole["npy"], quick=True, quarantine=tmp_path / "good")


@pytest.mark.parametrize("damage", [cut, remove])
def test_shards_that_are_cut_or_gone_are_left_out_too(whole, tmp_path, damage):
    path = shutil.copytree(whole["webdataset"], tmp_path / "tars")
    damage(path)
    loss = verify(path, quarantine=tmp_path / "good").quarantine
    assert loss is not None
    assert loss.num_shards == 1
    good = tokenyard.open_corpus(tmp_path / "good")
    assert len(good) + loss.num_rows == 3000
    assert np.array_equal(good[0], tokenyard.open_corpus(whole["webdataset"])[0])
