"""A store that fails while a job writes to it: the right bytes all the same, or a named error and nothing published."""

from pathlib import Path

import pytest

from tests.corpora import random_rows, write_corpus
from tests.servers.faulty import Fault, Proxy
from tokenyard.converters.convert import convert
from tokenyard.errors import DestinationExistsError, StorageError, TokenyardError
from tokenyard.manifest import MANIFEST_NAME, MARKER_NAME
from tokenyard.storage.objects import open_objects
from tokenyard.testing.round_trips import contents

SHARDS = {"shard_bytes": 20_000}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "corpus"
    write_corpus(path, random_rows(seed=3, num_rows=1500, longest=6))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, source: Path) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("whole") / "corpus"
    convert(source, path, to="mds", **SHARDS)
    return contents(path)


@pytest.fixture
def url(faulty: Proxy, bucket: str) -> str:
    """A place behind the proxy."""
    faulty.clear()
    return f"{bucket}/out"


def stored(url: str, faulty: Proxy) -> dict[str, bytes]:
    faulty.choose = lambda request: None
    objects = open_objects(url)
    return {info.name: bytes(objects.read(info.name)) for info in objects.list()}


# Lost: the store does what it was asked for, and its answer never comes.
@pytest.mark.parametrize("fault", ["500", "503", "reset", "lost"])
def test_faults_that_pass_change_no_byte(
    fault: Fault, faulty: Proxy, url: str, source: Path, whole: dict[str, bytes]
) -> None:
    faulty.choose = lambda request: fault if request.attempt == 1 else None
    convert(source, url, to="mds", **SHARDS)
    assert faulty.faults[fault] > 20
    assert stored(url, faulty) == whole


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("500", r"can't write s3://.*/out/shard-00001-00000\.mds: the store answered 500 .*\(\d+ attempts? in"),
        (
            "503",
            r"can't write s3://.*/out/shard-00001-00000\.mds: the store answered 503 .*the store is busy: use fewer",
        ),
        ("403", r"can't write s3://.*/out/shard-00001-00000\.mds: the store answered 403 .*check the credentials"),
    ],
)
def test_faults_that_stay_are_named_and_what_was_done_is_gone_on_with(
    fault: Fault,
    said: str,
    faulty: Proxy,
    url: str,
    source: Path,
    whole: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKENYARD_STORAGE_DEADLINE", "3")
    faulty.choose = lambda r: fault if r.kind == "PUT" and r.key.endswith("shard-00001-00000.mds") else None
    with pytest.raises(StorageError, match=said) as failed:
        convert(source, url, to="mds", **SHARDS)
    assert "the same job, run again, goes on with it" in failed.value.__notes__[0]
    monkeypatch.delenv("TOKENYARD_STORAGE_DEADLINE")
    assert MANIFEST_NAME not in stored(url, faulty)
    rows: list[int] = []
    convert(source, url, to="mds", on_progress=lambda p: rows.append(p.rows), **SHARDS)
    assert rows == [1500]
    assert stored(url, faulty) == whole


def test_a_store_that_is_gone_in_the_middle_is_told_and_the_job_is_gone_on_with_when_it_is_back(
    faulty: Proxy, url: str, source: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENYARD_STORAGE_DEADLINE", "2")

    def gone(_: object) -> None:
        faulty.choose = lambda request: "reset"

    with pytest.raises(StorageError, match=r"s3://.*/out.*attempts? in .*run it again"):
        convert(source, url, to="mds", on_progress=gone, **SHARDS)
    monkeypatch.delenv("TOKENYARD_STORAGE_DEADLINE")
    left = stored(url, faulty)
    assert MARKER_NAME in left
    assert MANIFEST_NAME not in left
    monkeypatch.setattr("tokenyard.corpus.lease.LEASE_SECONDS", 0.2)  # which that job could not give back
    with pytest.warns(match="somebody is at work there, or was killed"):
        convert(source, url, to="mds", **SHARDS)
    assert stored(url, faulty) == whole


def test_bytes_that_read_back_wrong_are_never_published(faulty: Proxy, url: str, source: Path) -> None:
    faulty.choose = lambda r: "wrong" if r.kind == "GET" and r.key.endswith("00000.mds") else None
    with pytest.raises(TokenyardError, match=r"shard-00000-00000\.mds"):
        convert(source, url, to="mds", **SHARDS)
    assert stored(url, faulty) == {}


def test_of_two_jobs_whose_claims_were_answered_with_resets_one_has_the_place(
    faulty: Proxy, url: str, source: Path
) -> None:
    said: list[str] = []

    def meanwhile(_: object) -> None:
        if not said:
            faulty.choose = lambda request: "lost" if request.kind == "PUT" and request.attempt == 1 else None
            faulty.clear()
            with pytest.raises(DestinationExistsError) as refused:
                convert(source, url, to="csv", **SHARDS)
            said.append(str(refused.value))

    faulty.choose = lambda request: "lost" if request.kind == "PUT" and request.attempt == 1 else None
    convert(source, url, to="mds", on_progress=meanwhile, **SHARDS)
    assert "another job makes a corpus there" in said[0]
