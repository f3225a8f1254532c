"""A store that fails: the right data all the same, or an error that names the object, the attempts and the cause."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.corpora import random_rows, write_corpus
from tests.servers.copies import upload
from tests.servers.faulty import Fault, Proxy, Request
from tokenyard.converters.convert import convert
from tokenyard.converters.verify import verify
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.errors import DataError, StorageError, TokenyardError
from tokenyard.manifest import MANIFEST_NAME
from tokenyard.storage.objects import Patience, open_objects
from tokenyard.storage.objects.direct import PIECE_BYTES

ROWS = random_rows(3, 120, 100)
#: Attempts of five seconds, given up after two and a half without a byte: a busy machine needs less.
PATIENT = Patience(deadline=20.0)
#: Fewer attempts, so that there is little to wait for.
IMPATIENT = Patience(deadline=12.0, attempts=2)
PASSING: list[Fault] = ["500", "503", "429", "reset", "cut", "slow", "stalled"]


@pytest.fixture(params=["npy", "parquet"])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Corpus:
    return write_corpus(tmp_path / "local", ROWS, format=request.param, shard_bytes=8_000)


@pytest.fixture
def url(local: Corpus, faulty: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The corpus behind the proxy."""
    be(monkeypatch, PATIENT)
    upload(Path(str(local.path)), bucket)
    faulty.clear()
    return bucket


def be(monkeypatch: pytest.MonkeyPatch, patience: Patience) -> None:
    """Let what is opened from now on have this patience."""
    monkeypatch.setattr("tokenyard.storage.objects.client.patience_of_environment", lambda: patience)


def tokens_of(corpus: Corpus) -> list[int]:
    return np.concatenate([batch.tokens for batch in corpus.batches()]).tolist()


def first_attempts(faulty: Proxy, fault: Fault) -> None:
    """The first attempt of each request fails, of slow ones that of the first request: it takes seconds."""
    few = fault in ("slow", "stalled")

    def choose(request: Request) -> Fault | None:
        if few and faulty.faults[fault]:
            return None
        wanted = request.kind == "GET" if fault in ("cut", "slow", "stalled") else True
        return fault if wanted and request.attempt == 1 else None

    faulty.choose = choose


@pytest.mark.parametrize("fault", PASSING)
def test_faults_that_pass_give_the_right_rows(fault: Fault, local: Corpus, url: str, faulty: Proxy) -> None:
    first_attempts(faulty, fault)
    corpus = open_corpus(url)
    assert tokens_of(corpus) == tokens_of(local)
    rows = np.arange(len(local))[::-7].copy()
    assert np.array_equal(corpus.gather_rows(rows)[0], local.gather_rows(rows)[0])
    assert faulty.faults[fault] >= (1 if fault in ("slow", "stalled") else 2)


@pytest.mark.parametrize("fault", PASSING)
def test_faults_that_pass_give_the_right_conversion(
    fault: Fault, local: Corpus, url: str, faulty: Proxy, tmp_path: Path
) -> None:
    first_attempts(faulty, fault)
    convert(url, tmp_path / "converted", to="mds")
    assert open_corpus(tmp_path / "converted").digest == local.digest
    assert faulty.faults[fault] >= (1 if fault in ("slow", "stalled") else 2)


CAUSES: dict[Fault, str] = {
    "500": r"the store answered 500 .*\(InternalError\)",
    "503": r"the store answered 503 .*\(SlowDown\)",
    "429": r"the store answered 429 .*\(TooManyRequests\)",
    "reset": r"the connection was (reset|closed)|the answer was cut|error sending request",
    "cut": r"the answer was cut|error decoding response body|connection closed",
    "slow": r"no answer in time|error decoding response body|timed out",
    "stalled": r"no answer in time|error decoding response body|timed out",
}


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("does", ["reads", "converts"])
def test_faults_that_stay_end_in_an_error_that_names_them(
    fault: Fault, does: str, local: Corpus, url: str, faulty: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, IMPATIENT)
    name = local.manifest.shards[1].name
    corpus = open_corpus(url)
    faulty.choose = lambda request: fault if request.kind == "GET" and request.key == name else None
    begun = time.monotonic()
    with pytest.raises(
        StorageError, match=rf"can't read {url}/{name}: ({CAUSES[fault]}).* \(2 attempts in [\d.]+ s\); "
    ):
        tokens_of(corpus) if does == "reads" else convert(corpus, tmp_path / "converted", to="mds")
    # Of the deadline, not of the machine: all waiting together would be many times as long.
    assert time.monotonic() - begun < 60
    assert faulty.faults[fault] == IMPATIENT.attempts
    assert not (tmp_path / "converted" / MANIFEST_NAME).exists()


@pytest.mark.parametrize("does", ["reads", "converts"])
def test_a_shard_that_is_gone_is_named_at_once(
    does: str, local: Corpus, url: str, faulty: Proxy, tmp_path: Path
) -> None:
    name = local.manifest.shards[1].name
    open_objects(url).remove(name)
    corpus = open_corpus(url)
    faulty.clear()
    with pytest.raises(StorageError, match=rf"can't read {url}/{name}: no such object; check the URL, "):
        tokens_of(corpus) if does == "reads" else convert(corpus, tmp_path / "converted", to="mds")
    # No request is made again for it; a job asks what its inputs are, before and after.
    assert max(count for (kind, *_), count in faulty.attempts.items() if kind == "GET") <= 2
    assert max(faulty.attempts.values()) <= (2 if does == "reads" else 3)


def test_a_forbidden_object_is_named_with_what_credentials_there_are(local: Corpus, url: str, faulty: Proxy) -> None:
    faulty.choose = lambda request: "403" if request.key == MANIFEST_NAME else None
    with pytest.raises(
        StorageError, match=r"manifest.json: the store answered 403 .*\(1 attempt in .*AWS_ACCESS_KEY_ID"
    ):
        open_corpus(url)
    assert faulty.faults["403"] == 1


def test_wrong_bytes_of_a_manifest_or_an_index_are_seen_by_every_reader(local: Corpus, url: str, faulty: Proxy) -> None:
    faulty.choose = lambda request: "wrong" if request.key.endswith(".idx") else None
    with pytest.raises(DataError, match=r"shard-00000.idx: not the row index that the manifest names; rebuild"):
        tokens_of(open_corpus(url))


def test_wrong_bytes_of_a_shard_are_seen_by_a_conversion_and_by_verify(
    local: Corpus, url: str, faulty: Proxy, tmp_path: Path
) -> None:
    name = local.manifest.shards[1].name
    faulty.choose = lambda request: "wrong" if request.kind == "GET" and request.key == name else None
    with pytest.raises(TokenyardError, match=r"digest|shard-00001.parquet: "):
        convert(url, tmp_path / "converted", to="mds")
    report = verify(url)
    assert not report.ok
    assert any(name in problem.message for problem in report.problems)
    assert not (tmp_path / "converted" / MANIFEST_NAME).exists()


def test_verify_finds_nothing_wrong_with_a_sound_corpus_and_what_is_cut_or_gone_in_another(
    local: Corpus, url: str, tmp_path: Path
) -> None:
    assert verify(url).ok
    assert verify(url, quick=True).ok
    assert verify(url, against=local).ok
    gone, cut = local.manifest.shards[0].name, local.manifest.shards[1].name
    objects = open_objects(url)
    objects.put(cut, objects.read(cut, 0, 100).tobytes())
    objects.remove(gone)
    for quick in (True, False):
        report = verify(url, quick=quick)
        assert {p.file for p in report.problems} >= {gone, cut}


def test_uploads_meet_faults_too(faulty: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, PATIENT)
    faulty.choose = lambda request: "500" if request.kind in ("PUT", "POST") and request.attempt == 1 else None
    objects, large = open_objects(bucket), np.zeros(PIECE_BYTES + 1, np.uint8)
    objects.put("small", b"x")
    objects.put("large", large)
    assert objects.put_new("new", b"mine")
    assert objects.read("small").tobytes() == b"x"
    assert np.array_equal(objects.read("large", 0, len(large)), large)
    faulty.choose = lambda request: "500" if request.kind in ("PUT", "POST") else None
    with pytest.raises(StorageError, match=r"can't write s3://.*/small: the store answered 500 .*\(\d attempts in"):
        objects.put("small", b"y")
    with pytest.raises(StorageError, match=r"can't write s3://.*/large2: .*\(parts were tried 8 times\); run it again"):
        objects.put("large2", large)
    assert objects.head("large2") is None


def test_an_upload_whose_answer_was_lost_is_known_by_its_bytes(faulty: Proxy, bucket: str) -> None:
    objects = open_objects(bucket)
    objects.put("claim", b"mine")  # as a first attempt that arrived would have
    faulty.choose = lambda request: "reset" if request.kind == "PUT" and request.attempt == 1 else None
    faulty.clear()
    assert objects.put_new("claim", b"mine")
    faulty.clear()
    assert objects.put_new("claim", b"theirs") is None


def test_no_server_is_an_error_that_names_the_endpoint(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENYARD_STORAGE_DEADLINE", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match=r"no server answers there .*\(\d attempts? in .*\(AWS_ENDPOINT_URL\)"):
        open_corpus(bucket)
