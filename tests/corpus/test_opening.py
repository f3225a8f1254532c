"""Opening: folders, files, lists and URLs; other people's folders are never written into."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenyard.corpus import CorpusWriter, open_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.errors import (
    ConfigError,
    DataError,
    IncompleteCorpusError,
    NotACorpusError,
    StorageError,
    UnknownFormatError,
)
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.npy import Npy
from tokenyard.schema import Schema


def foreign(folder: Path, count: int = 12) -> Path:
    folder.mkdir(parents=True)
    for i in range(count):
        np.save(folder / f"tokens_{i}.npy", np.full(i, i, np.int32))
    return folder


def own(folder: Path) -> Path:
    with CorpusWriter(folder, format="npy", schema=Schema(token_dtype="uint16")) as w:
        w.write([1, 2])
    return folder


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns) for p in [folder, *folder.rglob("*")]}


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of shards, as they are scanned."""
    found: list[str] = []
    really = Npy.scan

    def scan(self: Npy, folder: Any, shard: Any, schema: Schema) -> ShardIndex:
        found.append(shard.files[0].name)
        return really(self, folder, shard, schema)

    monkeypatch.setattr(Npy, "scan", scan)
    return found


def test_a_folder_of_others_is_recognized_and_never_written_into(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    before = snapshot(folder)
    corpus = open_corpus(folder)
    assert (corpus.format, len(corpus), corpus.digest) == ("npy", 12, None)
    assert [corpus[i].tolist() for i in range(12)] == [[i] * i for i in range(12)]
    list(corpus.batches())
    corpus.gather_windows(np.array([0]), 60)
    assert snapshot(folder) == before


def test_the_index_of_others_is_built_once(tmp_path: Path, scans: list[str]) -> None:
    folder = foreign(tmp_path / "data")
    first = open_corpus(folder)
    assert scans == [f"tokens_{i}.npy" for i in range(12)]
    second = open_corpus(folder)
    assert len(scans) == 12
    assert second.manifest == first.manifest
    assert second.structural_id == first.structural_id
    assert second.structural_id.startswith("structural:")


@pytest.mark.parametrize("change", ["contents", "time", "options", "damaged cache"])
def test_the_index_is_built_again_when_what_it_depends_on_changes(
    tmp_path: Path, scans: list[str], alone: Path, change: str
) -> None:
    folder = foreign(tmp_path / "data", 3)
    open_corpus(folder)
    scans.clear()
    options = {}
    if change == "contents":
        np.save(folder / "tokens_1.npy", np.arange(5, dtype=np.int32))
    elif change == "time":
        (folder / "tokens_1.npy").touch()
    elif change == "options":
        options = {"split": {"length": 2}}
    else:
        for entry in alone.rglob("*.idx"):
            entry.write_bytes(b"TYINDEX1\nnonsense")
    corpus = open_corpus(folder, **options)
    assert scans == (["tokens_1.npy"] if change in ("contents", "time") else [f"tokens_{i}.npy" for i in range(3)])
    assert corpus.num_tokens == (7 if change == "contents" else 3)


@pytest.mark.parametrize("cache", ["below a file", "no home"])
def test_a_cache_that_can_not_be_written_costs_time_and_nothing_else(
    tmp_path: Path, scans: list[str], monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    folder = foreign(tmp_path / "data", 3)
    if cache == "below a file":
        (tmp_path / "file").touch()
        monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "file/cache"))
    else:

        def no_home(self: Path) -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.delenv("TOKENYARD_CACHE")
        monkeypatch.setattr(Path, "expanduser", no_home)
    monkeypatch.setattr("tokenyard.corpus.locating.local_path", Path)
    for _ in range(2):
        assert len(open_corpus(folder)) == 3
    assert len(scans) == 6


def test_the_cache_lies_in_the_home_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENYARD_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    open_corpus(foreign(tmp_path / "data", 2))
    assert len(list((tmp_path / "home/.cache/tokenyard/index").rglob("*.idx"))) == 2


def test_one_file_is_a_corpus(tmp_path: Path) -> None:
    corpus = open_corpus(foreign(tmp_path / "data") / "tokens_3.npy")
    assert [corpus[i].tolist() for i in range(len(corpus))] == [[3, 3, 3]]


def test_a_list_of_files_is_a_corpus_in_its_own_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(tmp_path / "one")
    foreign(tmp_path / "two")
    files = [tmp_path / "two/tokens_3.npy", tmp_path / "one/tokens_10.npy", tmp_path / "one/tokens_2.npy"]
    lists: list[Sequence[Any]] = [files, [str(f) for f in files], [f.as_uri() for f in files], tuple(files)]
    monkeypatch.chdir(tmp_path / "one")
    lists.append(["../two/tokens_3.npy", "./tokens_10.npy", "tokens_2.npy"])
    for given in lists:
        corpus = open_corpus(given)
        assert [len(corpus[i]) for i in range(len(corpus))] == [3, 10, 2]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "an empty list of files is no corpus"),
        (["data/tokens_1.npy", "absent.npy"], r"absent.npy: no such file \(a list names the files of one corpus"),
        (["data"], r"data: no such file \(a list names the files of one corpus, in order\)"),
    ],
)
def test_a_list_that_names_no_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], message: str
) -> None:
    foreign(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotACorpusError, match=message):
        open_corpus(files)


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    folder = own(tmp_path / "a folder #1 with 100% 漢字?")
    for url in (folder.as_uri(), folder.as_uri().replace("file:///", "file://localhost/"), f"file://{tmp_path}/plain"):
        if url.endswith("plain"):
            own(tmp_path / "plain")
        assert open_corpus(url)[0].tolist() == [1, 2]
    with CorpusWriter((tmp_path / "new one").as_uri(), format="npy", schema=Schema()) as w:
        w.write([1])
    assert len(open_corpus(tmp_path / "new one")) == 1


@pytest.mark.parametrize("url", ["ftp://host/x", "hdfs://host/x"])
def test_urls_of_other_kinds_are_refused_with_the_way_out(url: str) -> None:
    scheme = url.split("://")[0]
    for path in (url, [url]):
        with pytest.raises(
            ConfigError, match=rf"{scheme}://host.*: no scheme is called {scheme}; known are s3://, gs://"
        ):
            open_corpus(path)
    with pytest.raises((StorageError, ConfigError), match=f"{scheme}"):
        CorpusWriter(url, format="npy", schema=Schema())


@pytest.mark.parametrize("url", ["file://host/data", "file://data", "file://"])
def test_a_file_url_of_another_host_is_refused(url: str) -> None:
    with pytest.raises(
        StorageError, match=f"{url}: a file:// URL of this machine has an absolute path, as in file:///"
    ):
        open_corpus(url)


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own(tmp_path / "corpus")
    assert len(open_corpus("~/corpus")) == 1


def test_what_is_not_there_is_no_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotACorpusError, match=f"{tmp_path}/absent: no such file or folder$"):
        open_corpus(tmp_path / "absent")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotACorpusError, match=f"^absent: no such file or folder in {tmp_path}, from which relative"):
        open_corpus("absent")


def test_a_folder_that_no_format_knows_says_what_it_found(tmp_path: Path) -> None:
    (tmp_path / "notes.md").touch()
    with pytest.raises(NotACorpusError, match=r"not a corpus of format npy \(found notes.md\)"):
        open_corpus(tmp_path, format="npy")
    with pytest.raises(NotACorpusError, match=r"not a corpus of one of the formats mds, npy.* \(found notes.md\)"):
        open_corpus(tmp_path)
    (tmp_path / "notes.md").unlink()
    with pytest.raises(NotACorpusError, match=r"\(found no files\)"):
        open_corpus(tmp_path)


def test_the_format_is_checked_when_it_is_given(tmp_path: Path) -> None:
    assert open_corpus(own(tmp_path / "own"), format="npy").format == "npy"
    with pytest.raises(ConfigError, match="is a corpus in format npy, not mds; use format: auto"):
        open_corpus(tmp_path / "own", format="mds")
    with pytest.raises(UnknownFormatError, match="unknown format 'nyp'; did you mean 'npy'"):
        open_corpus(foreign(tmp_path / "data"), format="nyp")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"colour": 1},
            "open_corpus has no option colour; it has format, read, cache_bytes, tokens, token_dtype, fields, split",
        ),
        ({"split": {"length": 1, "eos": 2}}, "split takes exactly one of 'length' and 'eos'"),
        ({"split": {}}, "split takes exactly one of 'length' and 'eos'"),
        ({"split": {"length": 0}}, "options for reading: .*split.length"),
        ({"token_dtype": "float32"}, "'float32' is not an integer type, such as uint16, uint32 or '>i4'"),
        ({"token_dtype": "nonsense"}, "'nonsense' is not an integer type"),
    ],
)
def test_options_that_are_wrong_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        open_corpus(foreign(tmp_path / "data", 1), **options)


def test_a_marker_without_a_manifest_is_a_job_that_did_not_end(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    (folder / ".tokenyard").mkdir()
    (folder / ".tokenyard/job.json").touch()
    with pytest.raises(
        IncompleteCorpusError, match=r"\.tokenyard/job.json is there, the manifest is not\); run the job"
    ):
        open_corpus(folder)


def test_a_marker_beside_a_manifest_is_a_job_that_was_done(tmp_path: Path) -> None:
    (own(tmp_path / "own") / ".tokenyard/job.json").touch()
    assert len(open_corpus(tmp_path / "own")) == 1


def test_a_file_that_shrinks_after_opening_is_refused_and_not_mapped(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "data")
    corpus = open_corpus(folder)
    np.save(folder / "tokens_11.npy", np.arange(2, dtype=np.int32))
    with pytest.raises(DataError, match=r"tokens_11.npy: 136 bytes, expected 172; it was cut or replaced, restore it"):
        corpus[11]


def test_a_corpus_of_others_can_be_pickled(tmp_path: Path) -> None:
    corpus = open_corpus(foreign(tmp_path / "data"))
    copy = pickle.loads(pickle.dumps(corpus))
    assert [copy[i].tolist() for i in range(12)] == [[i] * i for i in range(12)]
    assert copy.manifest == corpus.manifest


def test_a_corpus_says_what_it_is(tmp_path: Path) -> None:
    corpus = open_corpus(own(tmp_path / "own"))
    assert repr(corpus) == f"Corpus('{tmp_path}/own', npy, 1 rows, 2 tokens)"
    assert corpus.layout.kind == "documents"
    assert corpus.shard_row_starts.tolist() == [0, 1]
    assert corpus.digest is not None
    assert corpus.digest.startswith("ty1:")


def test_a_list_of_files_in_several_formats_is_refused_and_never_read_in_part(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    (tmp_path / "b.jsonl").write_text('{"tokens": [1]}\n')
    with pytest.raises(DataError, match=r"b\.jsonl is not read with the other files, as format npy"):
        open_corpus([tmp_path / "a.npy", tmp_path / "b.jsonl"])


def test_a_corpus_of_one_file_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "ids.npy", np.arange(12, dtype=np.uint16).reshape(3, 4))
    monkeypatch.chdir(tmp_path)
    for opened in ("ids.npy", "."):
        corpus = open_corpus(opened)
        assert corpus.path == Path("ids.npy")
        assert "ids.npy" in repr(corpus)
        with pytest.raises(IndexError, match=r"are not all within the 3 rows of ids\.npy"):
            corpus.gather_rows(np.array([7]))
        with pytest.raises(ConfigError, match=r"ids\.npy has rows of up to 4 tokens"):
            TokenDataset(corpus, 2, mode="rows")
        assert TokenDataset(corpus, 2).source_names == ("ids.npy",)
    np.save(tmp_path / "more.npy", np.arange(12, dtype=np.uint16).reshape(3, 4))
    for opened in (["ids.npy", "more.npy"], "."):
        assert open_corpus(opened).path.absolute() == tmp_path
        assert TokenDataset(opened, 2).source_names == (tmp_path.name,)
