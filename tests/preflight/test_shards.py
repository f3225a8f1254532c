"""Files that are missing, cut, changed or not known: what the quick look finds, and what only the full one does."""

import shutil
from pathlib import Path

import pytest

from tests.preflight.looked import look, of_corpus, settings, the_line, write_corpora
from tokenyard.corpus import open_corpus
from tokenyard.errors import NotACorpusError


@pytest.fixture
def home(tmp_path):
    return write_corpora(tmp_path)


def change_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


def shard_files(corpus: Path) -> list[Path]:
    return [corpus / shard.name for shard in open_corpus(corpus).manifest.shards]


def test_a_whole_corpus_passes_with_what_was_looked_at(home):
    num_shards = len(shard_files(home / "web"))
    match = rf"files, sizes and row indexes of all {num_shards} shards, checksums of {num_shards} \(\d.* kB\)"
    the_line(look(settings(home)), "shards", "pass", match=match)
    the_line(look(settings(home), full=True), "shards", "pass", match=f"all {num_shards} shards, every byte and row")


@pytest.mark.parametrize("full", [False, True])
def test_a_missing_file_fails(home, full):
    file = shard_files(home / "web")[1]
    file.unlink()
    report = look(settings(home), full=full)
    the_line(report, "shards", "fail", match=f"{file}.*-> restore these files; tokenyard verify {home / 'web'}")
    assert not report.ok


def test_a_cut_file_fails(home):
    file = shard_files(home / "web")[0]
    file.write_bytes(file.read_bytes()[:-2])
    the_line(look(settings(home)), "shards", "fail", match=f"{file}: .* the file was cut or replaced")


def test_a_missing_file_is_told_with_the_checks_that_it_stops(home):
    shard_files(home / "web")[0].unlink()
    report = look(settings(home))
    the_line(report, "rows", "fail", match="shard-00000.npy: no such file or folder")
    assert any("ids, documents and tokenizer, as its rows can't be read" in told for told in report.not_checked)
    the_line(report, "partition", "pass")


def test_a_damaged_shard_fails(home):
    change_byte(shard_files(home / "web")[2])
    the_line(look(settings(home)), "shards", "fail", match="its checksum is blake3:.*restore this file")


def test_a_damaged_shard_that_was_not_read_is_found_by_the_full_look(home, monkeypatch):
    monkeypatch.setattr("tokenyard.preflight.shards._READ_BYTES", 800)
    files = shard_files(home / "web")
    read = len(files) * 800 // sum(file.stat().st_size for file in files)
    assert read == 1
    change_byte(files[0])
    report = look(settings(home))
    the_line(report, "shards", "pass", match=r"checksums of 1 \(")
    the_line(look(settings(home), full=True), "shards", "fail", match="its checksum is blake3:")


def test_of_very_many_shards_some_are_looked_at(home, monkeypatch):
    monkeypatch.setattr("tokenyard.preflight.shards._LOCAL_SHARDS", 2)
    the_line(look(settings(home)), "shards", "pass", match=r"row indexes of 2 of \d shards")


def test_more_than_three_problems_are_counted(home):
    for file in shard_files(home / "web"):
        file.unlink()
    report = look(settings(home))
    the_line(report, "shards", "fail", match=r"; and \d+ more \(looked at")
    the_line(report, "first batch", "fail", match="no such file or folder")
    assert any(told.startswith("memory: no batch could be made") for told in report.not_checked)


def test_a_file_that_the_manifest_does_not_name_fails(home):
    shutil.copy(shard_files(home / "web")[0], home / "web" / "shard-99999.npy")
    the_line(look(settings(home)), "shards", "fail", match="the manifest doesn't name it")


def test_a_damaged_manifest_fails_and_nothing_else_is_looked_at(home):
    (home / "web/.tokenyard/manifest.json").write_text("{")
    report = look(settings(home))
    the_line(report, "corpus", "fail", match="manifest.json: not valid JSON")
    assert [line.check for line in report.lines] == ["corpus"]
    assert report.not_checked == ("everything else: the corpora can't be opened",)
    assert (report.ranks, report.steps, report.status) == (None, None, "fail")


def test_a_source_that_is_damaged_is_named(home):
    change_byte(shard_files(home / "code")[0])
    report = look(settings(home, mixture=True))
    the_line(report, "shards", "fail", source="code", match="its checksum is")
    the_line(report, "shards", "pass", source="web")


def test_a_place_without_a_corpus_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotACorpusError, match="empty"):
        look(of_corpus(tmp_path / "empty"))
