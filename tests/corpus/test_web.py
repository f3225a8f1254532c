"""Corpora on web servers and on the Hugging Face Hub: to read, and not to list or write."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.corpora import random_rows, write_corpus
from tests.servers.web import Web, web_server
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.digest import digest_of
from tokenyard.errors import NotACorpusError, StorageError
from tokenyard.storage.objects import open_objects

ROWS = random_rows(0, 100, 100)


@pytest.fixture
def local(tmp_path: Path) -> Corpus:
    return write_corpus(tmp_path / "served" / "corpora" / "mine", ROWS, format="mds", shard_bytes=4_000)


@pytest.fixture
def bare(local: Corpus, tmp_path: Path) -> Path:
    """A copy without our manifest."""
    return Path(
        shutil.copytree(str(local.path), tmp_path / "served" / "bare", ignore=shutil.ignore_patterns(".tokenyard"))
    )


@pytest.fixture
def web(local: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    with web_server(tmp_path / "served", token="secret") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", "secret")
        yield server


def assert_same(corpus: Corpus, local: Corpus) -> None:
    assert digest_of(corpus.batches(), {}).tokens == local.digest


def test_a_corpus_with_a_manifest_or_an_index_json_opens_from_a_web_server(web: Web, local: Corpus, bare: Path) -> None:
    assert_same(open_corpus(f"{web.url}/corpora/mine"), local)
    assert_same(open_corpus(f"{web.url}/bare/"), local)


def test_a_file_opens_from_a_web_server_and_a_folder_of_others_does_not(web: Web, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "served" / "rows", ROWS, format="jsonl")
    shutil.rmtree(tmp_path / "served" / "rows" / ".tokenyard")
    assert_same(open_corpus(f"{web.url}/rows/shard-00000.jsonl"), corpus)
    with pytest.raises(NotACorpusError, match=r"/rows: web servers don't list, so a corpus there needs .*index.json"):
        open_corpus(f"{web.url}/rows")


def test_nothing_is_listed_on_or_written_to_a_web_server(web: Web) -> None:
    objects = open_objects(web.url)
    with pytest.raises(StorageError, match=r"can't list http://.*: web servers don't list; a corpus there needs"):
        objects.list()
    with pytest.raises(StorageError, match=r"can't write http://.*/a: http:// is for reading; write to s3://, gs://"):
        objects.put("a", b"x")


def test_a_data_set_of_the_hub_opens_at_its_revision(web: Web, local: Corpus, bare: Path, tmp_path: Path) -> None:
    assert_same(open_corpus("hf://datasets/owner/name@v1/corpora/mine"), local)
    assert_same(open_corpus("hf://datasets/owner/name@v1/bare"), local)
    with pytest.raises(
        StorageError, match=r"name@v2/bare: the store answered 404 .*; check the URL: .*revision, folder"
    ):
        open_corpus("hf://datasets/owner/name@v2/bare")


def test_a_branch_of_the_hub_that_moves_while_it_is_read_is_read_as_it_was(web: Web, tmp_path: Path) -> None:
    first, second = "1" * 40, "2" * 40
    old = write_corpus(tmp_path / "served" / first / "mine", ROWS, format="npy", shard_bytes=4_000)
    new = write_corpus(tmp_path / "served" / second / "mine", ROWS[::-1], format="npy", shard_bytes=4_000)
    for corpus in (old, new):  # nothing but its bytes would tell one commit from the other
        assert corpus.manifest.num_tokens == old.manifest.num_tokens
    web.main = first
    opened = open_corpus("hf://datasets/owner/name/mine")
    web.main = second
    assert_same(opened, old)
    assert_same(pickle.loads(pickle.dumps(opened)), old)
    web.seen.clear()
    assert_same(open_corpus("hf://datasets/owner/name@main/mine"), new)
    assert sum("/revision/" in path for _, path in web.seen) == 1


def test_a_commit_is_read_without_asking_for_it(web: Web, tmp_path: Path) -> None:
    web.main = "3" * 40
    corpus = write_corpus(tmp_path / "served" / web.main / "mine", ROWS, format="npy")
    assert_same(open_corpus(f"hf://datasets/owner/name@{web.main}/mine"), corpus)
    assert not [path for _, path in web.seen if "/revision/" in path]


@pytest.mark.parametrize(
    ("said", "revision"),
    [
        ("refs/pr/1", "refs/pr/1"),
        ("refs%2Fpr%2F1", "refs/pr/1"),
        ("refs%2Fconvert%2Fparquet", "refs/convert/parquet"),
        ("~parquet", "refs/convert/parquet"),
    ],
)
def test_revisions_with_slashes_in_their_names_are_told_from_folders(
    web: Web, tmp_path: Path, said: str, revision: str
) -> None:
    web.main = "6" * 40
    corpus = write_corpus(tmp_path / "served" / web.main / "some" / "mine", ROWS, format="npy")
    assert_same(open_corpus(f"hf://datasets/owner/name@{said}/some/mine"), corpus)
    asked = [path for _, path in web.seen if "/revision/" in path]
    assert asked == [f"/api/datasets/owner/name/revision/{revision}"]
    (tmp_path / "served" / web.main / "a").write_bytes(b"abc")
    assert bytes(open_objects(f"hf://datasets/owner/name@{said}").read("a")) == b"abc"
    web.no_commit = (404, b"")
    corpus = write_corpus(tmp_path / "served" / revision / "mine", ROWS, format="npy")
    assert_same(open_corpus(f"hf://datasets/owner/name@{said}/mine"), corpus)


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b""), (200, b"{}"), (404, b""), (501, b"")])
def test_a_mirror_that_knows_no_commits_is_read_by_its_branch(
    web: Web, tmp_path: Path, answer: tuple[int, bytes]
) -> None:
    web.no_commit = answer
    corpus = write_corpus(tmp_path / "served" / "main" / "mine", ROWS, format="npy")
    assert_same(open_corpus("hf://datasets/owner/name/mine"), corpus)


def test_a_hub_that_fails_is_told_with_the_way_out(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENYARD_STORAGE_DEADLINE", "2")
    web.no_commit = (503, b"")
    with pytest.raises(
        StorageError, match=r"can't look for the commit of hf://.*\(a commit in the URL needs none\).*503"
    ):
        open_corpus("hf://datasets/owner/name/mine")


def test_threads_that_make_the_first_call_together_read_one_commit(web: Web, tmp_path: Path) -> None:
    web.main = "4" * 40
    (tmp_path / "served" / web.main).mkdir(parents=True)
    (tmp_path / "served" / web.main / "a").write_bytes(b"abc")
    objects = open_objects("hf://datasets/owner/name")
    with ThreadPoolExecutor(8) as pool:
        assert {bytes(found) for found in pool.map(lambda _: objects.read("a"), range(8))} == {b"abc"}
    assert sum("/revision/" in path for _, path in web.seen) == 1


def test_a_forked_process_knows_the_commit_that_it_reads(web: Web, tmp_path: Path) -> None:
    web.main = "5" * 40
    (tmp_path / "served" / web.main / "some folder").mkdir(parents=True)
    (tmp_path / "served" / web.main / "some folder" / "a%41").write_bytes(b"abc")
    open_objects(web.url).head("nothing")  # so that a fork is one of a process that has made calls
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_read_forked, args=(theirs,))
    process.start()
    found, url = ours.recv()
    process.join()
    assert (found, url) == (b"abc", f"hf://datasets/owner/name@{web.main}/some%20folder/a%2541")


def _read_forked(pipe: Connection) -> None:
    objects = open_objects("hf://datasets/owner/name/some%20folder")
    pipe.send((bytes(objects.read("a%41")), objects.url_of("a%41")))


def test_a_folder_of_others_on_the_hub_is_listed_in_pages(web: Web, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "served" / "rows", ROWS, format="jsonl", shard_bytes=1_000)
    shutil.rmtree(tmp_path / "served" / "rows" / ".tokenyard")
    assert len(corpus.manifest.shards) > 6
    assert_same(open_corpus("hf://datasets/owner/name@v1/rows"), corpus)
    assert sum("/tree/" in path for _, path in web.seen) == -(-len(corpus.manifest.shards) // 3)


def test_the_hub_wants_the_token_of_the_environment(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(StorageError, match=r"hf://.*: the store answered 401 .*HF_TOKEN"):
        open_corpus("hf://datasets/owner/name@v1/corpora/mine")
