"""`tokenyard verify`, as a user types it: what it prints, and its exit codes."""

import json
import shutil
import sys

import pytest

import tokenyard
from tests.cli.test_cli import run
from tests.converters.verify.made import BAD, flip, flip_in_data, remove, shard_file, write


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write(tmp_path_factory.mktemp("whole") / "corpus")


def test_a_whole_corpus_is_verified_quick_and_full(whole):
    assert run("verify", whole).startswith("verified\n")
    quick = run("verify", whole, "--quick")
    assert quick.startswith("verified\n")
    assert "not verified:\n- no shard was decoded" in quick
    assert json.loads(run("verify", whole, "--json"))["bad_shards"] == []


def test_the_help_says_what_quick_finds_and_what_it_can_not_find():
    said = " ".join(run("verify", "--help").split())
    for flag in ("--quick", "--against", "--reference", "--python", "--quarantine", "--workers", "--json"):
        assert flag in said
    assert "files that are missing, cut or added, and row indexes that are damaged" in said
    assert "It can't find bytes that changed inside a shard, nor shards of one size that were exchanged" in said


def test_every_bad_shard_is_listed_and_the_exit_code_is_1(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "corpus")
    names = [s.name for s in tokenyard.open_corpus(path).manifest.shards]
    remove(path)
    flip(path / names[3], -1)
    said = run("verify", path, "--workers", 2, code=1)
    assert said.startswith("NOT WHOLE\n")
    assert f"2 of {len(names)}" in said
    assert f"- can't read {path / names[BAD]}: no such file or folder" in said
    assert f"- {path / names[3]}: its checksum is" in said
    report = json.loads(run("verify", path, "--json", code=1))
    assert report["bad_shards"] == [1, 3]
    assert [p["file"] for p in report["problems"]] == [names[1], names[3]]
    first, end = tokenyard.open_corpus(path).shard_row_starts[1:3].tolist()
    assert report["problems"][0]["rows"] == [first, end - 1]
    assert report["damaged"]


def test_the_good_part_is_linked_and_the_loss_printed(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "corpus")
    bad = tokenyard.open_corpus(path).manifest.shards[BAD]
    flip_in_data(path)
    said = run("verify", path, "--quarantine", tmp_path / "good", code=1)
    assert (
        f"the good part is at {tmp_path / 'good'}; it leaves out 1 shards: {bad.num_rows:,} rows, {bad.num_tokens:,} "
        "tokens"
    ) in said
    assert run("verify", tmp_path / "good").startswith("verified\n")


def test_the_official_library_is_named_with_its_version(whole):
    said = run("verify", whole, "--reference", "--python", sys.executable)
    assert "reference" in said
    assert "numpy " in said


def test_wrong_usage_exits_with_2_and_says_the_way_out(whole, tmp_path):
    assert "leave one of the two out" in run("verify", whole, "--quick", "--reference", code=2)
    assert "it goes with reference" in run("verify", whole, "--python", "python", code=2)
    assert "choose another place" in run("verify", whole, "--quarantine", tmp_path, code=2)
    write(tmp_path / "mds", "mds", num_rows=3)
    said = run("verify", tmp_path / "mds", "--reference", code=2)
    assert "pip install mosaicml-streaming" in said.replace("\n", "")


def test_only_the_first_hundred_problems_are_printed(tmp_path):
    path = write(tmp_path / "corpus", num_rows=400, shard_bytes=50)
    shards = tokenyard.open_corpus(path).manifest.shards
    for shard in shards:
        (path / shard.name).unlink()
    said = run("verify", path, "--quick", code=1)
    assert said.count("no such file or folder") == 100
    assert f"- and {len(shards) - 100} more; --json lists all" in said
    assert not shard_file(path, 0).exists()
