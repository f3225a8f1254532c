"""Each bottleneck is made to happen, and is what the doctor names; what can be mended comes with the setting."""

import itertools
import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from tests.cores import on_one_core
from tests.monitor.runs import in_python, settings, slow_storage, write
from tests.servers import web
from tokenyard.doctor import examine
from tokenyard.doctor.page import advice, sentence

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("served_first")]

#: Times that an examination is repeated where other work on this machine had the cores or the disk.
ATTEMPTS = 4


@pytest.fixture(scope="module")
def npy(tmp_path_factory):
    return write(tmp_path_factory.mktemp("doctor") / "npy")


def found_by(config, is_right, *, seconds=4.0, **options):
    """What an examination finds. It is of the machine too, so it is repeated until it is right."""
    for _ in range(ATTEMPTS):
        report = examine(config, seconds=seconds, **options)
        if is_right(report):
            return report
    raise AssertionError([sentence(report), *advice(report), report.to_dict()])


def is_limited_by(kind):
    return lambda report: report.is_fed is False and report.limit is not None and report.limit.kind == kind


def test_a_loader_that_gives_many_times_the_need_is_fed_as_it_is(npy):
    report = found_by(settings(npy), lambda report: report.is_fed_as_configured, step_ms=100, gpus=2)
    assert len(report.check.fast) == 2
    assert report.changes == {}
    assert report.limit is None
    assert sentence(report).startswith("fed: 2 GPUs at 100 ms take 160 samples/s; num_threads: 2 gives ")


def test_a_slow_disk_is_hidden_by_the_threads_that_are_told(npy, monkeypatch):
    slow_storage(monkeypatch, lambda: 0.004)
    config = settings(npy, read="pread", cache_bytes=0, num_threads=1)
    report = found_by(config, lambda report: report.is_fed, step_ms=30)
    assert report.is_fed_as_configured is False
    assert report.changes["num_threads"] >= 4
    assert report.yaml == f"loader:\n  num_threads: {report.changes['num_threads']}"
    assert sentence(report).startswith("not fed as it is, but after a change: 1 GPU at 30 ms takes 533 samples/s; ")


def test_a_disk_that_no_number_of_threads_hides_is_the_limit(npy, monkeypatch):
    slow_storage(monkeypatch, lambda: 0.004)
    config = settings(npy, read="pread", cache_bytes=0, num_threads=1)
    report = found_by(config, is_limited_by("disk"), step_ms=0.1)
    assert report.changes == {}
    assert "are waiting for the disk" in report.limit.evidence
    assert "the limit is the disk" in sentence(report)
    # Were storage free, several times as much would come.
    assert report.ceiling.steps_per_second > 3 * report.check.steps_per_second


@pytest.fixture
def slow_server(tmp_path, monkeypatch):
    """The URL of a server whose answers come late; of few shards, each of which is asked for when it is opened."""
    write(tmp_path / "npy", shard_bytes=1 << 21)
    answer = web._Handler.do_GET

    def answer_late(handler):
        time.sleep(0.03)
        answer(handler)

    monkeypatch.setattr(web._Handler, "do_GET", answer_late)
    with web.web_server(tmp_path) as server:
        yield f"{server.url}/npy"


def test_a_slow_server_is_the_limit_of_all_ranks_together(slow_server):
    config = settings(slow_server, cache_bytes=0, num_threads=1)
    report = found_by(config, is_limited_by("network"), step_ms=2, gpus=2)
    assert len(report.check.fast) == 2
    assert "are waiting for http" in report.limit.evidence
    assert report.limit.advice.startswith("read through a folder on a local disk (loader.cache)")


def test_a_slow_server_behind_a_cache_is_the_limit_too(slow_server, tmp_path):
    config = settings(slow_server, batch=64, cache={"bytes": 1 << 30, "path": str(tmp_path / "cache")})
    config["order"] |= {"shuffle": "block", "block_samples": 16}
    report = found_by(config, is_limited_by("network"), step_ms=2)
    assert "were not in the cache when they were due" in report.limit.evidence
    assert "MB/s come in from http" in report.limit.evidence
    assert "keep the corpus nearer or smaller" in report.limit.advice


@pytest.mark.parametrize(("format", "options"), [("parquet", {}), ("mds", {"compression": "zstd"})])
def test_blocks_that_are_decoded_for_every_batch_are_the_limit(tmp_path, format, options):
    write(tmp_path / "c", format, **options)
    report = found_by(settings(tmp_path / "c", cache_bytes=0), is_limited_by("decode"), step_ms=0.2, warm=True)
    assert f"are decoding {format}" in report.limit.evidence
    assert "tokenyard convert SRC DST --to npy" in report.limit.advice


def slow_transform(sample, rng):
    return in_python(3)(sample, rng)


def test_a_slow_transform_is_the_limit_of_all_ranks_together(npy):
    report = found_by(settings(npy), is_limited_by("python"), step_ms=1, gpus=2, transform=slow_transform, warm=True)
    assert "are a transform or other work in Python" in report.limit.evidence
    assert "make the transform cheaper" in report.limit.advice
    # It costs the same where storage is free.
    assert report.ceiling.steps_per_second < 2 * report.tried[0].steps_per_second


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system can't keep processes on a core")
def test_too_few_cores_for_the_copies_are_told(npy):
    config = settings(npy, batch=512, num_threads=1, sample={"boundaries": True})
    with on_one_core():
        report = found_by(config, is_limited_by("threads"), step_ms=0.05, warm=True)
    assert "are finding, copying and making tensors" in report.limit.evidence
    assert "give this rank more cores" in report.limit.advice


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system can't keep processes on a core")
def test_cores_that_others_keep_busy_are_the_limit(npy):
    burn = [sys.executable, "-c", "while True: pass"]
    config = settings(npy, batch=512, num_threads=1, sample={"boundaries": True})
    # Steps of twice what the data take, as long as a core is had.
    step_ms = 2e3 / examine(config, seconds=4.0, warm=True).check.steps_per_second
    with on_one_core(), ExitStack() as stack:
        for _ in range(6):
            process = stack.enter_context(subprocess.Popen(burn))
            stack.callback(process.kill)
        report = found_by(config, is_limited_by("cpu"), step_ms=step_ms, warm=True)
    assert report.cores == 1
    assert "are waiting for a core" in report.limit.evidence
    assert "give this rank more cores" in report.limit.advice


def test_a_disk_that_stalls_now_and_then_is_hidden_by_reading_further_ahead(npy, monkeypatch):
    reads = itertools.count()
    slow_storage(monkeypatch, lambda: 0.3 if next(reads) % 128 == 0 else 0)
    config = settings(npy, read="pread", num_threads=4, prefetch_factor=1, cache_bytes=0)
    report = found_by(config, lambda report: report.is_fed and not report.is_fed_as_configured, step_ms=40, seconds=8.0)
    # More threads are further ahead, too.
    ahead = report.changes.get("num_threads", 4) * report.changes.get("prefetch_factor", 1)
    assert ahead >= 8


def test_without_a_step_time_the_shortest_one_is_told_that_does_not_wait(npy, monkeypatch):
    slow_storage(monkeypatch, lambda: 0.004)
    config = settings(npy, read="pread", cache_bytes=0, num_threads=2)
    report = found_by(config, lambda report: report.check.wait_share < 0.1)
    assert report.is_fed is None
    assert report.is_fed_as_configured is None
    assert 1 / report.check.steps_per_second < report.check.step_seconds < 0.2
    assert sentence(report).startswith(f"1 GPU is fed with steps of {1e3 * report.check.step_seconds:.3g} ms or longer")
