"""``tokenyard index``: others' corpora get an index and a digest, ours get back what was lost, by proof."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.digest import digest_of
from tokenyard.errors import (
    ConfigError,
    DataError,
    IncompleteCorpusError,
    NotACorpusError,
    StorageError,
    VerificationError,
)
from tokenyard.formats.npy import Npy
from tokenyard.formats.registry import get_format
from tokenyard.manifest import Manifest
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema
from tokenyard.storage import Folder, checksum
from tokenyard.testing.round_trips import contents


def foreign(folder: Path, count: int = 5, columns: int = 4) -> Path:
    folder.mkdir(parents=True)
    for i in range(count):
        np.save(folder / f"part_{i}.npy", np.arange(3 * columns, dtype=np.int32).reshape(3, columns) + i)
    return folder


def rows_of(corpus: Corpus) -> list[list[int]]:
    return [corpus[i].tolist() for i in range(len(corpus))]


def test_a_corpus_of_others_gets_indexes_checksums_and_a_digest(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    files = contents(folder)
    rows = rows_of(open_corpus(folder))
    manifest = index_corpus(folder)
    found = open_corpus(folder)
    assert found.manifest == manifest
    assert rows_of(found) == rows
    assert manifest.digests == digest_of([RowBatch.from_rows(rows, Schema())])
    assert {k: manifest.provenance[k] for k in ("job", "options")} == {"job": "index", "options": {}}
    for shard in manifest.shards:
        assert shard.files[0].checksum == checksum((folder / shard.name).read_bytes())
        assert shard.index is not None
        assert (folder / shard.index.name).is_file()
    after = contents(folder)
    assert {n: b for n, b in after.items() if not n.startswith(".tokenyard/")} == files
    assert sorted(n for n in after if n.startswith(".tokenyard/")) == sorted(
        [".tokenyard/manifest.json", *(f".tokenyard/index/shard-{i:05d}.idx" for i in range(5))]
    )


def test_an_indexed_corpus_opens_without_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = foreign(tmp_path / "data")
    index_corpus(folder)
    monkeypatch.setattr(Npy, "scan", None)
    monkeypatch.setattr(Npy, "discover", None)
    assert len(open_corpus(folder)) == 15


def test_the_options_it_was_read_with_are_kept(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data/stream.npy", np.arange(10))
    index_corpus(tmp_path / "data", split={"length": 4})
    assert rows_of(open_corpus(tmp_path / "data")) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(open_corpus(tmp_path / "data", split={"length": 4})) == 3
    with pytest.raises(
        ConfigError, match=r"was indexed with the options \{'split': \{'length': 4\}\}, not .*'length': 5"
    ):
        open_corpus(tmp_path / "data", split={"length": 5})
    index_corpus(tmp_path / "data")
    assert len(open_corpus(tmp_path / "data")) == 3
    index_corpus(tmp_path / "data", split={"length": 5})
    assert rows_of(open_corpus(tmp_path / "data")) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_a_whole_index_is_left_as_it_is_unless_forced(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    index_corpus(folder)
    times = {p: p.stat().st_mtime_ns for p in (folder / ".tokenyard").rglob("*")}
    assert index_corpus(folder) == open_corpus(folder).manifest
    assert {p: p.stat().st_mtime_ns for p in (folder / ".tokenyard").rglob("*")} == times
    before = contents(folder)
    index_corpus(folder, force=True)
    assert contents(folder) == before
    assert (folder / ".tokenyard/manifest.json").stat().st_mtime_ns != times[folder / ".tokenyard/manifest.json"]


@pytest.mark.parametrize("change", ["added", "removed", "grown", "index lost"])
def test_a_corpus_of_others_that_changed_is_indexed_again(tmp_path: Path, change: str) -> None:
    folder = foreign(tmp_path / "data")
    index_corpus(folder)
    if change == "added":
        np.save(folder / "part_9.npy", np.zeros((1, 4), np.int32))
    elif change == "removed":
        (folder / "part_2.npy").unlink()
    elif change == "grown":
        np.save(folder / "part_2.npy", np.zeros((7, 4), np.int32))
    else:
        (folder / ".tokenyard/index/shard-00002.idx").unlink()
    manifest = index_corpus(folder)
    assert manifest.num_rows == {"added": 16, "removed": 12, "grown": 19, "index lost": 15}[change]
    found = open_corpus(folder)
    assert found.manifest.digests == digest_of(found.batches())


def test_a_change_that_keeps_the_size_takes_force(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    before = index_corpus(folder)
    np.save(folder / "part_2.npy", np.zeros((3, 4), np.int32))
    assert index_corpus(folder).digests == before.digests
    assert index_corpus(folder, force=True).digests != before.digests


def test_what_a_read_only_folder_can_not_keep_the_users_cache_does(tmp_path: Path, alone: Path) -> None:
    folder = foreign(tmp_path / "data")
    (folder / ".tokenyard").touch()  # a file where the folder should be: nothing can be written
    with pytest.warns(UserWarning, match=f"{folder}: can't be written to, so its index is kept in {alone}") as caught:
        manifest = index_corpus(folder)
    assert caught[0].filename == __file__
    assert manifest.digests is not None
    found = open_corpus(folder)
    assert found.digest == manifest.digests.tokens
    assert found.manifest.digests == manifest.digests
    (folder / "part_0.npy").touch()
    assert open_corpus(folder).digest is None


def test_a_digest_of_other_options_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    (folder / ".tokenyard").touch()
    np.save(folder / "part_0.npy", np.arange(10))
    for name in (f"part_{i}.npy" for i in range(1, 5)):
        (folder / name).unlink()
    with pytest.warns(UserWarning, match="can't be written to"):
        index_corpus(folder, split={"length": 4})
    assert open_corpus(folder, split={"length": 4}).digest is not None
    assert open_corpus(folder, split={"length": 5}).digest is None
    assert open_corpus(folder).digest is None


def test_where_nothing_can_be_written_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = foreign(tmp_path / "data")
    (folder / ".tokenyard").touch()
    monkeypatch.setenv("TOKENYARD_CACHE", str(folder / ".tokenyard/cache"))
    with pytest.raises(
        StorageError, match=f"can't write {folder}/.tokenyard/index/shard-00000.idx: a file is in the way"
    ):
        index_corpus(folder)


def test_an_interrupted_index_leaves_a_corpus_that_opens_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = foreign(tmp_path / "data")

    def interrupt(self: Manifest) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "to_json", interrupt)
        with pytest.raises(KeyboardInterrupt):
            index_corpus(folder)
    assert (len(open_corpus(folder)), open_corpus(folder).digest) == (15, None)
    index_corpus(folder)
    assert open_corpus(folder).digest is not None


def test_rows_that_can_not_be_converted_can_not_be_indexed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data/stream.npy", np.array([1, -2, 3]))
    with pytest.raises(DataError, match=r"token id -2 is outside 0 .. 4294967295"):
        index_corpus(tmp_path / "data")
    assert not (tmp_path / "data/.tokenyard").exists()


@pytest.mark.parametrize("place", ["absent", "data/part_0.npy"])
def test_it_takes_a_folder(tmp_path: Path, place: str) -> None:
    foreign(tmp_path / "data")
    with pytest.raises(
        NotACorpusError, match=r"(no such folder;|a file; .*) 'tokenyard index' takes the folder of a corpus"
    ):
        index_corpus(tmp_path / place)


def test_what_is_no_corpus_or_half_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").touch()
    with pytest.raises(NotACorpusError, match="not a corpus of one of the formats"):
        index_corpus(tmp_path)
    half = CorpusWriter(tmp_path / "half", format="npy", schema=Schema())
    half.write([1])
    shutil.copytree(tmp_path / "half", tmp_path / "dead")
    with pytest.raises(IncompleteCorpusError, match="a job is making this corpus right now; wait for its end"):
        index_corpus(tmp_path / "half")
    with pytest.raises(IncompleteCorpusError, match=r"a job began here and did not finish.*run the job again"):
        index_corpus(tmp_path / "dead")


def test_options_and_format_are_checked(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    with pytest.raises(ConfigError, match="has no option colour"):
        index_corpus(folder, colour="red")
    index_corpus(folder, format="npy")
    with pytest.raises(ConfigError, match="is a corpus in format npy, not mds; use format: auto"):
        index_corpus(folder, format="mds")


# ---- our own ----


def own(folder: Path, *rows: Any) -> Path:
    with CorpusWriter(folder, format="npy", schema=Schema(token_dtype="uint16"), shard_bytes=20) as w:
        for row in rows:
            w.write(row)
    return folder


def test_a_whole_corpus_of_ours_is_left_as_it_is(tmp_path: Path) -> None:
    folder = own(tmp_path / "own", [1, 2], [3], [4])
    before = contents(folder)
    assert index_corpus(folder) == open_corpus(folder).manifest
    assert contents(folder) == before


def test_rows_that_only_the_index_knew_can_not_be_rebuilt(tmp_path: Path) -> None:
    folder = own(tmp_path / "own", [1, 2], [3], [4])
    before = contents(folder)
    with pytest.raises(
        DataError, match=r"the file alone says 1 rows, 2 tokens, the manifest 2 and 2; its row index can't"
    ):
        index_corpus(folder, force=True)
    assert contents(folder) == before


def test_rows_that_the_shard_knows_are_rebuilt(tmp_path: Path) -> None:
    # Rows of .npy begin where the file begins when each shard holds one.
    folder = own(tmp_path / "own", [1] * 20, [2] * 20, [3] * 20)
    manifest = open_corpus(folder).manifest
    for damage in ("lost", "cut", "all lost"):
        if damage == "all lost":
            for shard in manifest.shards:
                assert shard.index is not None
                (folder / shard.index.name).unlink()
        else:
            path = folder / ".tokenyard/index/shard-00001.idx"
            path.unlink() if damage == "lost" else path.write_bytes(path.read_bytes()[:-3])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rebuilt = index_corpus(folder)
        assert rebuilt == open_corpus(folder).manifest
        assert rebuilt.digests == manifest.digests
        assert rebuilt.provenance == manifest.provenance
        assert rows_of(open_corpus(folder)) == [[1] * 20, [2] * 20, [3] * 20]


def test_a_rebuilt_index_that_gives_other_rows_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    folder = own(tmp_path / "own", [1] * 20, [2] * 20)
    shard = folder / "shard-00001.npy"
    shard.write_bytes(shard.read_bytes()[:-2] + b"\7\0")
    (folder / ".tokenyard/index/shard-00001.idx").unlink()
    before = contents(folder)
    with pytest.raises(
        VerificationError, match=r"its rows are not those of the manifest's digest \(tokens: .*nothing was"
    ):
        index_corpus(folder)
    assert contents(folder) == before


def test_a_shard_that_is_gone_can_not_be_indexed(tmp_path: Path) -> None:
    folder = own(tmp_path / "own", [1] * 20, [2] * 20)
    (folder / "shard-00001.npy").unlink()
    (folder / ".tokenyard/index/shard-00001.idx").unlink()
    with pytest.raises(DataError, match=r"shard-00001.npy: not among the shards of format npy; restore it"):
        index_corpus(folder)


def test_a_damaged_manifest_is_not_replaced(tmp_path: Path) -> None:
    folder = own(tmp_path / "own", [1])
    (folder / ".tokenyard/manifest.json").write_text(json.dumps({"tokenyard": 1}))
    with pytest.raises(DataError, match=r"manifest.json: format: expected str, found None"):
        index_corpus(folder, force=True)
    assert get_format("npy").name == "npy"


def test_a_run_leaves_alone_what_another_run_is_writing(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    with Folder(folder).publish(".tokenyard/index/shard-00000.idx") as file:
        file.write(b"of another run")
        manifest = index_corpus(folder)
    assert index_corpus(folder) == manifest
    assert rows_of(open_corpus(folder))


@pytest.mark.parametrize("change", ["more", "fewer"])
def test_a_folder_whose_shards_are_others_now_is_not_opened_with_the_old_rows(tmp_path: Path, change: str) -> None:
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.arange(10) + i)
    index_corpus(tmp_path)
    (tmp_path / "README.md").write_text("what this is")  # no shard, so nothing changed
    assert len(open_corpus(tmp_path)) == 3
    if change == "more":
        np.save(tmp_path / "3.npy", np.arange(10))
    else:
        (tmp_path / "1.npy").unlink()
    told = "1 new, such as 3.npy" if change == "more" else "1 missing, such as 1.npy"
    with pytest.raises(DataError, match=rf"its shards have changed since \({told}\); run 'tokenyard index"):
        open_corpus(tmp_path)
    index_corpus(tmp_path)
    assert len(open_corpus(tmp_path)) == (4 if change == "more" else 2)
