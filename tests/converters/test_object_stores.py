"""Jobs whose destination is a URL: the bytes of a local run, whatever happens on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import random_rows, write_corpus
from tests.real_data import gpt2_json
from tokenyard.converters.convert import convert, plan_convert
from tokenyard.converters.pack import pack
from tokenyard.converters.run import run_part
from tokenyard.converters.tokenize import plan_tokenize, tokenize
from tokenyard.converters.verify import verify
from tokenyard.corpus import DONE_FOLDER, CorpusWriter, lease, open_corpus, remote_destination
from tokenyard.errors import (
    ConfigError,
    DataError,
    DestinationExistsError,
    SchemaError,
    StorageError,
    VerificationError,
)
from tokenyard.manifest import MANIFEST_NAME, MARKER_NAME
from tokenyard.schema import Schema
from tokenyard.storage.objects import open_objects
from tokenyard.storage.objects.direct import Direct
from tokenyard.testing.round_trips import contents

SHARDS = {"shard_bytes": 20_000}
NUM_TASKS = 3
WATCHING = "ignore:.*watching for up to"
FORMATS = ["npy", "mds", "webdataset", "parquet", "jsonl", "csv"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "corpus"
    write_corpus(path, random_rows(seed=3, num_rows=2500, longest=6))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, source: Path) -> dict[str, bytes]:
    """What a local conversion to MDS writes."""
    path = tmp_path_factory.mktemp("whole") / "corpus"
    convert(source, path, to="mds", **SHARDS)
    return contents(path)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"a text of number {i}"}) + "\n" for i in range(40)))
    return path


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of the dead end soon."""
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.2)


@pytest.fixture
def renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of the living are renewed soon."""
    monkeypatch.setattr(lease, "LEASE_SECONDS", 6.0)


def names(url: str) -> list[str]:
    return sorted(info.name for info in open_objects(url).list())


def stored(url: str) -> dict[str, bytes]:
    return {name: bytes(open_objects(url).read(name)) for name in names(url)}


class StoppedError(Exception):
    pass


def stop(_: object) -> None:
    raise StoppedError


def begin(source: Path, url: str, **options: Any) -> None:
    """Leave a job that has done one task."""
    with pytest.raises(StoppedError):
        convert(source, url, to="mds", on_progress=stop, **{**SHARDS, **options})


def refusals(*calls: Callable[[], object]) -> list[str]:
    said = []
    for call in calls:
        with pytest.raises(DestinationExistsError) as refused:
            call()
        said.append(str(refused.value))
    return said


@pytest.mark.parametrize("to", FORMATS)
def test_what_is_written_to_a_store_is_what_is_written_to_a_disk(
    tmp_path: Path, bucket: str, source: Path, to: str
) -> None:
    remote = convert(source, f"{bucket}/out", to=to, num_workers=2 if to == "mds" else 1, **SHARDS)
    local = convert(source, tmp_path / "out", to=to, **SHARDS)
    assert (remote.digest, remote.num_bytes) == (local.digest, local.num_bytes)
    assert stored(f"{bucket}/out") == contents(tmp_path / "out")
    corpus = open_corpus(f"{bucket}/out")
    assert corpus.digest == local.digest
    assert [row.tolist() for row in corpus] == [row.tolist() for row in open_corpus(source)]


@pytest.mark.parametrize("to", ["mds", "webdataset", "parquet"])
def test_the_official_library_reads_what_was_written_and_is_downloaded(
    tmp_path: Path, bucket: str, source: Path, peers_python: Path, to: str
) -> None:
    convert(source, f"{bucket}/out", to=to, **SHARDS)
    for name, data in stored(f"{bucket}/out").items():
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_bytes(data)
    report = verify(tmp_path / "out", reference=True, python=peers_python)
    assert (report.ok, report.problems) == (True, ())


def test_packing_and_tokenizing_write_to_a_store(tmp_path: Path, bucket: str, source: Path, texts: Path) -> None:
    packing: dict[str, Any] = {"seq_len": 4, "format": "webdataset", **SHARDS}
    pack(source, f"{bucket}/packed", **packing)
    pack(source, tmp_path / "packed", **packing)
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 200}}
    tokenize(texts, f"{bucket}/documents", **how)
    tokenize(texts, tmp_path / "documents", **how)
    for name in ("packed", "documents"):
        assert stored(f"{bucket}/{name}") == contents(tmp_path / name)


def test_texts_in_a_store_are_tokenized_as_those_on_a_disk_and_changes_are_told(
    tmp_path: Path, bucket: str, texts: Path
) -> None:
    objects = open_objects(f"{bucket}/texts")
    objects.put(texts.name, texts.read_bytes())
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 200}}
    far = tokenize(f"{bucket}/texts", tmp_path / "far", num_workers=2, **how)
    near = tokenize(texts, tmp_path / "near", **how)
    assert (far.digest, far.num_documents) == (near.digest, near.num_documents)
    planned = plan_tokenize(f"{bucket}/texts", **how)
    assert planned.marker() == plan_tokenize(f"{bucket}/texts", **how).marker()
    objects.put(texts.name, texts.read_bytes() + b"\n")
    assert planned.marker() != plan_tokenize(f"{bucket}/texts", **how).marker()


def test_shuffling_writes_to_a_store_what_it_needs_on_the_way_too(tmp_path: Path, bucket: str, source: Path) -> None:
    convert(source, f"{bucket}/out", to="mds", shuffle=7, **SHARDS)
    convert(source, tmp_path / "out", to="mds", shuffle=7, **SHARDS)
    assert stored(f"{bucket}/out") == contents(tmp_path / "out")


def test_each_file_is_uploaded_once_and_the_manifest_after_all_others(
    bucket: str, source: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    def counted(call: str) -> Callable[..., Any]:
        real = getattr(Direct, call)

        def called(self: Direct, name: str, *args: Any) -> Any:
            calls.append((call, name))
            return real(self, name, *args)

        return called

    for call in ("put", "list"):
        monkeypatch.setattr(Direct, call, counted(call))
    convert(source, f"{bucket}/out", to="mds", **SHARDS)
    uploaded = [name for call, name in calls if call == "put" and not name.startswith(".tokenyard/job")]
    assert sorted(uploaded) == sorted(whole)
    assert uploaded[-1] == MANIFEST_NAME
    # The whole place before the first task and after the last one; else folders of the job alone.
    assert len([name for call, name in calls if call == "list" and not name]) <= 4


def test_a_url_of_a_store_is_not_overwritten(bucket: str, source: Path) -> None:
    convert(source, f"{bucket}/out", to="mds")
    before = stored(f"{bucket}/out")
    with pytest.raises(
        ConfigError, match=r"--overwrite .* is for folders.*readers would find parts of both.*aws s3 rm"
    ):
        convert(source, f"{bucket}/out", to="csv", overwrite=True)
    with pytest.raises(DestinationExistsError, match=r"/out: a corpus is there already; choose another.*or empty this"):
        convert(source, f"{bucket}/out", to="csv")
    assert stored(f"{bucket}/out") == before


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/out", "hf://datasets/owner/name/out"])
def test_a_url_that_is_for_reading_is_no_destination(source: Path, url: str) -> None:
    with pytest.raises(
        ConfigError, match=r"such URLs are for reading; write to s3://, gs://, az://, memory://, or to a folder"
    ):
        convert(source, url, to="mds")


def test_objects_of_others_are_neither_written_to_nor_removed(bucket: str, source: Path) -> None:
    open_objects(bucket).put("out/notes.txt", b"mine")
    open_objects(bucket).put("outer/notes.txt", b"mine")
    with pytest.raises(DestinationExistsError, match=r"not a tokenyard corpus \('notes\.txt'\) is there already"):
        convert(source, f"{bucket}/out", to="mds")
    assert names(bucket) == ["out/notes.txt", "outer/notes.txt"]
    convert(source, f"{bucket}/oute", to="mds")


def test_what_was_done_before_an_error_is_kept_told_and_gone_on_with(
    bucket: str, source: Path, whole: dict[str, bytes]
) -> None:
    url = f"{bucket}/out"
    with pytest.raises(StoppedError) as stopped:
        convert(source, url, to="mds", on_progress=stop, **SHARDS)
    assert f"the same job, run again, goes on with it; it lies in {url}" in stopped.value.__notes__[0]
    open_objects(url).put("shard-00001-00000.mds", b"of a task that did not end")
    rows: list[int] = []
    convert(source, url, to="mds", on_progress=lambda p: rows.append(p.rows), **SHARDS)
    assert rows == [2048, 2500]
    assert stored(url) == whole


def test_a_shard_that_is_gone_or_cut_since_is_made_again(bucket: str, source: Path, whole: dict[str, bytes]) -> None:
    url = f"{bucket}/out"
    begin(source, url)
    open_objects(url).put("shard-00000-00000.mds", b"cut")
    convert(source, url, to="mds", **SHARDS)
    assert stored(url) == whole


def test_an_error_before_anything_is_done_leaves_nothing(
    bucket: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Direct.put

    def lossy(self: Direct, name: str, data: Any) -> str:
        if name.endswith(".mds"):
            data.seek(0)
            data = data.read()[:-2] + b"\xff\xff"
        return real(self, name, data)

    monkeypatch.setattr(Direct, "put", lossy)
    with pytest.raises(VerificationError, match=r"s3://.*/out: shard-00000-00000\.mds.* read back differently"):
        convert(source, f"{bucket}/out", to="mds", **SHARDS)
    assert names(bucket) == []


def test_another_job_does_not_go_on_there_and_says_what_differs(bucket: str, source: Path) -> None:
    url = f"{bucket}/out"
    begin(source, url)
    before = stored(url)
    with pytest.raises(
        DestinationExistsError,
        match=r"half-made \(another job.*shard_bytes: 20000 there, 30000 now\) is there already; run that job again",
    ):
        convert(source, url, to="mds", shard_bytes=30_000)
    assert stored(url) == before


def test_what_somebody_put_there_since_is_not_touched(bucket: str, source: Path) -> None:
    url = f"{bucket}/out"
    begin(source, url)
    open_objects(url).put("notes.txt", b"mine")
    with pytest.raises(DestinationExistsError, match=r"'notes\.txt' has been put there since.*move it away"):
        convert(source, url, to="mds", **SHARDS)
    assert "notes.txt" in names(url)


@pytest.mark.usefixtures("renewed")
@pytest.mark.filterwarnings(WATCHING)
def test_no_other_job_begins_while_one_lives(bucket: str, source: Path, whole: dict[str, bytes]) -> None:
    url, said = f"{bucket}/out", list[str]()

    def meanwhile(progress: Any) -> None:
        if progress.rows == 1024:
            job = plan_convert(source, to="mds", **SHARDS)
            said.extend(
                refusals(
                    lambda: convert(source, url, to="mds", **SHARDS),
                    lambda: run_part(job, url, (1, 3)),
                    lambda: convert(source, url, to="csv"),
                )
            )

    convert(source, url, to="mds", on_progress=meanwhile, **SHARDS)
    same, part, other = said
    assert "a job is at work on it right now; wait for its end" in same
    assert "a job is at work on it right now; wait for its end" in part
    assert "another job makes a corpus there, or was killed while it did (another job than this one" in other
    assert stored(url) == whole


@pytest.mark.usefixtures("renewed")
@pytest.mark.filterwarnings(WATCHING)
def test_parts_run_beside_each_other_but_the_same_one_and_the_whole_job_wait(bucket: str, source: Path) -> None:
    url, said, done = f"{bucket}/out", list[str](), list[int]()
    job = plan_convert(source, to="mds", **SHARDS)

    def meanwhile(_: object) -> None:
        done.append(run_part(job, url, (2, 3)).num_tasks)
        said.extend(refusals(lambda: run_part(job, url, (1, 3)), lambda: convert(source, url, to="mds", **SHARDS)))

    run_part(job, url, (1, 3), on_progress=meanwhile)
    assert done == [1]
    assert "another process does task 1/3 right now" in said[0]
    assert "parts of this job are at work on it right now" in said[1]
    assert sorted(n for n in names(url) if "/parts/" in n) == []


def test_parts_as_processes_at_once_and_an_end_give_the_same_bytes(
    bucket: str, source: Path, whole: dict[str, bytes]
) -> None:
    url = f"{bucket}/out"
    program = [sys.executable, "-m", "tokenyard", "convert", str(source), url, "--to", "mds", "-o", "shard_bytes=20000"]
    parts = [
        subprocess.Popen([*program, "--task", f"{n}/4"], env=environment(), stderr=subprocess.PIPE, text=True)
        for n in range(1, 5)
    ]
    said = [part.communicate(timeout=200)[1] for part in parts]
    assert [part.returncode for part in parts] == [0] * 4, said
    assert MANIFEST_NAME not in names(url)
    convert(source, url, to="mds", finish=True, **SHARDS)
    assert stored(url) == whole


def test_an_end_before_all_parts_are_done_is_refused(bucket: str, source: Path, whole: dict[str, bytes]) -> None:
    url = f"{bucket}/out"
    report = run_part(plan_convert(source, to="mds", **SHARDS), url, (2, 3))
    assert (report.destination, report.num_tasks, report.num_open_tasks) == (url, 1, 2)
    with pytest.raises(ConfigError, match=r"2 of 3 tasks are not done yet \(1, 3\)"):
        convert(source, url, to="mds", finish=True, **SHARDS)
    convert(source, url, to="mds", **SHARDS)
    assert stored(url) == whole


def take_all_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_destination, "are_dead", lambda *_: True)
    monkeypatch.setattr(remote_destination, "takeable", lease.look)


def test_parts_that_begin_at_the_same_moment_share_the_marker_of_one(
    bucket: str, source: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, done = f"{bucket}/out", list[int]()
    job, real = plan_convert(source, to="mds", **SHARDS), Direct.list

    def meanwhile(self: Direct, prefix: str) -> Any:
        """Another part begins after the first has seen no marker."""
        if not done:
            done.append(0)
            done.append(run_part(job, url, (2, 2)).num_tasks)
        return real(self, prefix)

    monkeypatch.setattr(Direct, "list", meanwhile)
    assert run_part(job, url, (1, 2)).num_tasks == 2
    assert done == [0, 1]
    convert(source, url, to="mds", finish=True, **SHARDS)
    assert stored(url) == whole


def test_two_writers_of_one_task_do_no_harm(
    bucket: str, source: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{bucket}/out"
    job = plan_convert(source, to="mds", **SHARDS)
    take_all_for_dead(monkeypatch)
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3600.0)  # the first doesn't find out
    again: list[int] = []

    def meanwhile(_: object) -> None:
        if not again:
            again.append(0)
            again.append(run_part(job, url, (1, 1), on_progress=meanwhile).num_tasks)

    assert run_part(job, url, (1, 1), on_progress=meanwhile).num_tasks == NUM_TASKS
    assert again == [0, NUM_TASKS]
    convert(source, url, to="mds", finish=True, **SHARDS)
    assert stored(url) == whole


def test_a_job_that_was_taken_for_dead_leaves_all_to_the_one_that_goes_on(
    bucket: str, source: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{bucket}/out"
    begun: list[int] = []

    def meanwhile(_: object) -> None:
        if not begun:
            begun.append(1)
            take_all_for_dead(monkeypatch)
            begin(source, url)

    with pytest.raises(
        DestinationExistsError, match="this job was taken for dead, and another process goes on with it"
    ):
        convert(source, url, to="mds", on_progress=meanwhile, **SHARDS)
    convert(source, url, to="mds", **SHARDS)
    assert stored(url) == whole


def test_a_job_that_was_taken_for_dead_stops_before_it_writes_a_manifest(
    bucket: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there by then may be another corpus."""
    url, real = f"{bucket}/out", Direct.put
    written: list[str] = []
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3600.0)  # it sleeps: nothing is renewed

    def put(self: Direct, name: str, data: Any) -> str:
        written.append(name)
        return real(self, name, data)

    def meanwhile(progress: Any) -> None:
        if progress.rows == 2500:
            for name in names(url):
                open_objects(url).remove(name)
            convert(source, url, to="mds", **SHARDS)
            monkeypatch.setattr(Direct, "put", put)

    with pytest.raises(DestinationExistsError, match="this job was taken for dead"):
        convert(source, url, to="mds", on_progress=meanwhile, **SHARDS)
    assert MANIFEST_NAME not in written


def test_a_part_that_was_taken_for_dead_stops_with_the_task_that_it_is_at(
    bucket: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, rows, held = f"{bucket}/out", list[int](), list[lease.Lease]()
    job = plan_convert(source, to="mds", **SHARDS)

    def taken(*args: Any, **more: Any) -> lease.Lease:
        held.append(lease.Lease(*args, **more))
        return held[-1]

    def meanwhile(progress: Any) -> None:
        rows.append(progress.rows)
        open_objects(url).remove(f"{remote_destination.PARTS_FOLDER}/1-of-1.json")
        assert not held[0].is_kept()  # as its thread finds

    monkeypatch.setattr(remote_destination, "Lease", taken)
    with pytest.raises(DestinationExistsError, match="this job was taken for dead"):
        run_part(job, url, (1, 1), on_progress=meanwhile)
    assert len(rows) == 1


def test_a_job_does_not_take_the_corpus_of_one_that_began_and_ended_meanwhile_for_its_own(
    bucket: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, real = f"{bucket}/out", Direct.list

    def meanwhile(self: Direct, prefix: str) -> Any:
        found = real(self, prefix)
        monkeypatch.setattr(Direct, "list", real)
        convert(source, url, to="mds", **SHARDS)
        return found

    monkeypatch.setattr(Direct, "list", meanwhile)
    with pytest.raises(DestinationExistsError, match="another job has just begun or ended here"):
        convert(source, url, to="csv")
    assert open_corpus(url).format == "mds"
    assert MARKER_NAME not in names(url)


@pytest.mark.parametrize("many", [False, True])
def test_a_source_in_a_store_that_changes_between_runs_or_under_one_is_told(
    tmp_path: Path, source: Path, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of MDS without a manifest, whose index.json stays as it is: no digest would tell."""
    monkeypatch.setattr("tokenyard.storage.bucket._FEW", 0 if many else 30)
    convert(source, tmp_path / "mds", to="mds", **SHARDS)
    objects = open_objects(f"memory://changing/{many}")
    for name, data in contents(tmp_path / "mds").items():
        if not name.startswith("."):
            objects.put(name, data)
    first, *_ = sorted(name for name in names(objects.url) if name.endswith(".mds"))

    def change(_: object) -> None:
        data = bytearray(objects.read(first))
        data[-1] ^= 1
        objects.put(first, bytes(data))

    def change_and_stop(_: object) -> None:
        change(_)
        raise StoppedError

    with pytest.raises(DataError, match="were changed while it read them"):
        convert(objects.url, tmp_path / "out", to="npy", on_progress=change, **SHARDS)
    with pytest.raises(StoppedError):
        convert(objects.url, tmp_path / "out", to="npy", on_progress=change_and_stop, **SHARDS)
    with pytest.raises(DestinationExistsError, match="its inputs have changed"):
        convert(objects.url, tmp_path / "out", to="npy", **SHARDS)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def check_kills(url: str, kind: str, source: Path, stride: int) -> None:
    command = [sys.executable, "-m", "tests.converters.remote_kills", kind, str(source), url, str(stride)]
    ended = subprocess.run(
        [*command, str(gpt2_json())], env=environment(), capture_output=True, text=True, timeout=3000, check=False
    )
    assert ended.returncode == 0, ended.stderr
    *killed, whole = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(killed) * stride > 40
    assert (whole["ended"], whole["found"]["missing"]) == ("done", [])
    for found in killed:
        assert found["ended"] == "killed"
        assert found["found"]["missing"] == [], "a manifest before its shards"
        assert found["contents"] == whole["contents"], found
        if "DestinationExistsError" in found["again"]:
            assert found["found"] == whole["found"]
        else:
            assert found["again"] == "done"


@pytest.mark.parametrize(("kind", "stride"), [("mds", 7), ("pack", 17), ("tokenize", 17)])
def test_a_job_that_was_killed_gives_the_same_bytes_when_it_is_run_again(
    bucket: str, source: Path, texts: Path, kind: str, stride: int
) -> None:
    check_kills(bucket, kind, texts if kind == "tokenize" else source, stride)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [*FORMATS, "pack", "tokenize"])
def test_a_job_killed_at_any_call_gives_the_same_bytes_when_it_is_run_again(
    bucket: str, source: Path, texts: Path, kind: str
) -> None:
    check_kills(bucket, kind, texts if kind == "tokenize" else source, 1)


def until(true: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait for something that a process does. Fails where it ends before."""
    end = time.monotonic() + 100
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
@pytest.mark.usefixtures("brief")
@pytest.mark.filterwarnings(WATCHING)
def test_what_is_done_is_kept_however_a_job_is_ended(tmp_path: Path, bucket: str, number: int, status: int) -> None:
    source, url = tmp_path / "source", f"{bucket}/out"
    write_corpus(source, random_rows(seed=3, num_rows=20_000, longest=6))
    program = [sys.executable, "-m", "tokenyard", "convert", str(source), url, "--to", "mds", "-o", "shard_bytes=10000"]
    process = subprocess.Popen(
        [*program, "-w", "2"],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background inherits that it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until(lambda: open_objects(url).list(DONE_FOLDER), process)
    process.send_signal(number)
    said = process.communicate(timeout=100)[1]
    assert process.returncode == status, said
    assert ("goes on with it" in said) == (number != signal.SIGKILL)
    left = names(url)
    assert MARKER_NAME in left
    assert MANIFEST_NAME not in left
    rows: list[int] = []
    convert(source, url, to="mds", shard_bytes=10_000, on_progress=lambda p: rows.append(p.rows))
    assert rows[0] > 1024
    convert(source, tmp_path / "out", to="mds", shard_bytes=10_000)
    assert stored(url) == contents(tmp_path / "out")


def test_the_memory_of_this_process_is_a_store_too(source: Path, whole: dict[str, bytes]) -> None:
    convert(source, "memory://here/out", to="mds", **SHARDS)
    assert stored("memory://here/out") == whole
    with pytest.raises(StorageError, match="memory of one process"):
        convert(source, "memory://here/other", to="mds", num_workers=2, **SHARDS)


def test_a_corpus_is_written_row_by_row_into_a_store(tmp_path: Path, bucket: str) -> None:
    for place in (tmp_path / "out", f"{bucket}/out"):
        with CorpusWriter(place, format="mds", schema=Schema(vocab_size=1000, token_dtype="uint16")) as writer:
            writer.write([1, 2, 3])
            writer.write([4])
    assert stored(f"{bucket}/out") == contents(tmp_path / "out")
    writer = CorpusWriter(f"{bucket}/other", format="mds", schema=Schema(vocab_size=1000, token_dtype="uint16"))
    assert names(f"{bucket}/other") == [MARKER_NAME]
    with pytest.raises(SchemaError, match="not below vocab_size"), writer:
        writer.write([1000])
    assert names(f"{bucket}/other") == []
