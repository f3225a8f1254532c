"""The client of object stores, against a running S3 server and in memory."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import threading
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tokenyard.errors import ConfigError, DataError, MissingDependencyError, StorageError
from tokenyard.storage.objects import Objects, Patience, is_url, open_objects
from tokenyard.storage.objects.direct import PIECE_BYTES

DATA = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8).tobytes()


@pytest.fixture(params=["s3", "memory"])
def objects(request: pytest.FixtureRequest, bucket: str) -> Objects:
    """An empty place in each kind of store that can be written."""
    return open_objects(f"{bucket}/folder" if request.param == "s3" else f"memory://{uuid.uuid4()}/folder")


def test_what_is_put_is_read_back_whole_and_by_ranges(objects: Objects) -> None:
    etag = objects.put("a/b.bin", DATA)
    assert objects.read("a/b.bin").tobytes() == DATA
    assert objects.read("a/b.bin", 10, 5_000).tobytes() == DATA[10:5_000]
    assert objects.read("a/b.bin", 99_990).tobytes() == DATA[99_990:]
    assert objects.read("a/b.bin", 99_990, 200_000).tobytes() == DATA[99_990:]
    info = objects.head("a/b.bin")
    assert info is not None
    assert (info.name, info.bytes, info.etag) == ("a/b.bin", len(DATA), etag)
    assert info.modified_ns > 0


def test_a_file_is_put_from_its_begin_and_fetched_into_another(objects: Objects, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(DATA)
    with source.open("rb") as f:
        f.seek(500)
        objects.put("file", f)
    target = io.BytesIO()
    assert objects.fetch("file", target) == len(DATA)
    assert target.getvalue() == DATA


def test_large_objects_go_and_come_in_pieces(objects: Objects) -> None:
    data = np.random.default_rng(1).integers(0, 256, PIECE_BYTES + PIECE_BYTES // 2, np.uint8)
    objects.put("large", data)
    assert np.array_equal(objects.read("large", 0, len(data)), data)
    target = io.BytesIO()
    assert objects.fetch("large", target) == len(data)
    assert target.getvalue() == data.tobytes()


def test_an_object_is_made_once_and_replaced_only_by_who_knows_it(objects: Objects) -> None:
    first = objects.put_new("claim", b"mine")
    assert first
    assert objects.put_new("claim", b"yours") is None
    assert objects.put_if("claim", b"yours", '"another"') is None
    second = objects.put_if("claim", b"mine again", first)
    assert second
    assert objects.put_if("claim", b"too late", first) is None
    assert objects.read("claim", etag=second).tobytes() == b"mine again"


def test_of_many_who_make_an_object_at_once_one_does(objects: Objects) -> None:
    made: list[str | None] = []
    threads = [
        threading.Thread(target=lambda i=i: made.append(objects.put_new("claim", str(i).encode()))) for i in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(etag is not None for etag in made) == 1


def test_all_below_a_folder_are_listed_and_others_are_not(objects: Objects) -> None:
    for name in ["a/1", "a/b/2", "ab/3", "c"]:
        objects.put(name, b"x")
    assert sorted(o.name for o in objects.list()) == ["a/1", "a/b/2", "ab/3", "c"]
    assert sorted(o.name for o in objects.list("a")) == ["a/1", "a/b/2"]
    assert objects.list("nothing") == []


def test_more_objects_than_a_page_holds_are_listed(bucket: str) -> None:
    objects = open_objects(bucket)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: objects.put(f"{i}", b""), range(1_005)))
    assert len(objects.list()) == 1_005


def test_what_is_removed_is_gone_and_may_be_gone_before(objects: Objects) -> None:
    objects.put("a", b"x")
    objects.remove("a")
    objects.remove("a")
    assert objects.head("a") is None
    with pytest.raises(StorageError, match=r"can't read .*/folder/a: no such object; check the URL"):
        objects.read("a")
    with pytest.raises(StorageError, match=r"can't read .*/folder/a: no such object; check the URL"):
        objects.fetch("a", io.BytesIO())


def test_an_object_that_was_replaced_is_not_taken_for_the_old_one(objects: Objects) -> None:
    etag = objects.put("a", b"old")
    objects.put("a", b"new")
    with pytest.raises(DataError, match=r"/folder/a: was replaced while it was read; open the corpus again"):
        objects.read("a", 0, 2, etag=etag)


def test_objects_pickle_and_open_again_where_they_arrive(bucket: str) -> None:
    objects = open_objects(f"{bucket}/folder/", Patience(deadline=7))
    objects.put("a", b"x")
    other = pickle.loads(pickle.dumps(objects))
    assert other.read("a").tobytes() == b"x"
    assert (other.url, other.patience.deadline) == (f"{bucket}/folder", 7)


def test_memory_does_not_leave_its_process() -> None:
    with pytest.raises(StorageError, match=r"memory://x: the memory of one process, which no other process sees; use"):
        pickle.dumps(open_objects("memory://x"))


def _calls_of_a_child(objects: Objects, name: str) -> None:
    """In a forked process: every call, from several threads."""
    assert objects.read("parent").tobytes() == DATA
    with pytest.raises(StorageError, match=r"/missing: no such object"):
        objects.read("missing")
    assert objects.head("missing") is None
    objects.put("file", io.BytesIO(DATA))
    assert objects.put_new("new", b"1")
    etag = objects.put("if", b"1")
    assert objects.put_if("if", b"2", etag)
    threads = [threading.Thread(target=objects.put, args=(f"thread-{i}", DATA)) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(objects.list()) == 24
    objects.remove("new")
    objects.put(name, b"done")


def test_a_forked_child_makes_calls_too(bucket: str) -> None:
    objects = open_objects(bucket)
    objects.put("parent", DATA)
    child = multiprocessing.get_context("fork").Process(target=_calls_of_a_child, args=(objects, "child"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child.start()
    child.join()
    assert child.exitcode == 0
    assert objects.read("child").tobytes() == b"done"


def test_urls_are_told_from_paths() -> None:
    assert is_url("s3://bucket/a")
    assert not is_url("data/corpus")
    assert not is_url("/data/s3:/x")
    assert not is_url(Path("s3://bucket"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://host/a", r"ftp://host/a: no scheme is called ftp; known are s3://, gs://, az://, hf://"),
        ("s3://[a]/b", r"s3://\[a\]/b: .*; expected s3://BUCKET/FOLDER"),
        ("s3:///a", r"s3:///a: names no bucket; expected s3://BUCKET/FOLDER"),
        ("https://host/a?token=1", r"https://host/a: a URL of a corpus has no query, no fragment and no password"),
        ("https://me:secret@host/a", r"https://host/a: a URL of a corpus has no query, no fragment and no password"),
        ("ftp://me:secret@host/a?sig=1", r"ftp://host/a: no scheme is called ftp"),
        ("https://me:secret@[host/a", r"https://\[host/a: .*; expected https://HOST/FOLDER"),
        ("s3://b/a/../c", r"s3://b/a/../c: names of objects have no '//', '.' or '..'"),
        ("s3://b/a//c", r"s3://b/a//c: names of objects have no '//', '.' or '..'"),
        ("hf://datasets/owner", r"expected hf://datasets/OWNER/NAME@REVISION/FOLDER"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        open_objects(url).head("x")
    assert "secret" not in str(refused.value)


def test_a_missing_obstore_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(MissingDependencyError, match=r"s3://b needs obstore: pip install 'tokenyard\[cloud\]'"):
        open_objects("s3://b")


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_a_deadline_that_is_no_time_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TOKENYARD_STORAGE_DEADLINE", text)
    with pytest.raises(ConfigError, match=f"TOKENYARD_STORAGE_DEADLINE is '{text}'; expected the seconds"):
        open_objects("memory://x")


def test_the_deadline_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENYARD_STORAGE_DEADLINE", "3.5")
    assert open_objects("memory://x").patience.deadline == 3.5
    assert os.environ["TOKENYARD_STORAGE_DEADLINE"] == "3.5"


def test_a_scheme_counts_whatever_its_letters() -> None:
    assert not open_objects("HTTPS://host/folder").lists
    with pytest.raises(StorageError, match=r"memory://.*: the memory of one process"):
        pickle.dumps(open_objects(f"MEMORY://{uuid.uuid4()}/folder"))
