"""Each bottleneck is made to happen, and gets its verdict; a run that doesn't wait gets none."""

import itertools
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue

import pytest

import tokenyard
from tests.monitor.runs import check_verdict, in_python, loader_of, slow_storage, streamed, watched, write
from tests.servers import files, web

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("served_first")]


@pytest.fixture(scope="module")
def npy(tmp_path_factory):
    return write(tmp_path_factory.mktemp("monitor") / "npy")


@contextmanager
def one_crowded_core():
    """A core with a dozen busy processes; gives what puts this thread there, with those it begins, and takes it off."""
    cores = os.sched_getaffinity(0)
    one = {min(cores)}
    burn = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {one})\nwhile True: pass"]
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, cores)
        for _ in range(12):
            process = stack.enter_context(subprocess.Popen(burn))
            stack.callback(process.kill)
        yield lambda: os.sched_setaffinity(0, one), lambda: os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 1}])
def test_a_run_that_does_not_wait_gets_no_verdict(npy, engine):
    def is_fed(reports):
        return [report.verdict for report in reports] == [None, None]

    reports = watched(loader_of(npy, prefetch_factor=8, **engine), 0.05, is_seen=is_fed)
    assert is_fed(reports), reports
    assert all(report.figures.wait_share < 0.1 for report in reports)


def test_a_slow_disk_is_told_with_the_threads_that_would_hide_it(npy, monkeypatch):
    slow_storage(monkeypatch, lambda: 0.004)
    loader = loader_of(npy, read="pread", cache_bytes=0, num_threads=1)
    check_verdict(loader, 0.01, "disk", "are waiting for the disk", "loader.num_threads 1 -> ")


def test_a_slow_server_is_told_with_the_threads_that_would_hide_it(npy, monkeypatch):
    answer = web._Handler.do_GET

    def answer_late(handler):
        time.sleep(0.01)
        answer(handler)

    monkeypatch.setattr(web._Handler, "do_GET", answer_late)
    with web.web_server(npy.parent) as server:
        loader = loader_of(f"{server.url}/npy", cache_bytes=0, num_threads=1)
        check_verdict(loader, 0.01, "network", "are waiting for http", "loader.num_threads 1 -> ")


def test_a_disk_that_stalls_now_and_then_asks_for_more_prefetching(npy, monkeypatch):
    reads = itertools.count()
    slow_storage(monkeypatch, lambda: 0.12 if next(reads) % 128 == 0 else 0)
    engine = {"num_threads": 4, "prefetch_factor": 1, "cache_bytes": 0}
    check_verdict(loader_of(npy, read="pread", **engine), 0.01, "prefetch", "loader.prefetch_factor 1 -> 4")


@pytest.mark.parametrize(("format", "options"), [("parquet", {}), ("mds", {"compression": "zstd"})])
def test_blocks_that_are_decoded_for_every_batch_are_told(tmp_path, format, options):
    write(tmp_path / "c", format, **options)
    loader = loader_of(tmp_path / "c", cache_bytes=0, num_threads=1)
    check_verdict(loader, 0.001, "decode", f"are decoding {format}", "tokenyard convert SRC DST --to npy")


@pytest.mark.parametrize(("engine", "now"), [({"num_threads": 2}, 0), ({"num_workers": 1}, 1)])
def test_a_slow_transform_in_python_asks_for_worker_processes(npy, engine, now):
    ways_out = (f"loader.num_workers {now} -> ", "make the transform cheaper")
    check_verdict(loader_of(npy, transform=in_python(3), **engine), 0.002, "python", ways_out)


def test_a_transform_that_holds_the_lock_of_steps_that_do_not_wait_is_told(npy):
    loader = loader_of(npy, batch=4, transform=in_python(11), num_threads=2, prefetch_factor=8)
    words = ("in threads of this process", "the step too", "loader.num_workers 0 -> 1")
    check_verdict(loader, 0.05, "python", *words)


@pytest.mark.parametrize(
    ("engine", "change"),
    [
        ({"num_threads": 1}, "loader.num_threads 1 -> "),
        ({"num_workers": 1}, "loader.num_workers 1 -> 0, and loader.num_threads: "),
    ],
)
def test_a_transform_that_waits_for_answers_asks_for_threads(npy, engine, change):
    def asks_elsewhere(sample, rng):
        time.sleep(0.005)
        return sample

    loader = loader_of(npy, batch=4, transform=asks_elsewhere, **engine)
    check_verdict(loader, 0.005, "python", "are a transform that waits rather than computes", change)


@pytest.mark.parametrize("num_threads", [0, 1])
def test_too_few_threads_are_told(npy, num_threads):
    loader = loader_of(npy, batch=512, num_threads=num_threads, sample={"boundaries": True})
    check_verdict(loader, 0, "threads", "are finding, copying and making tensors")


def test_a_store_that_fills_the_cache_too_slowly_is_told(npy, tmp_path, monkeypatch):
    answer = files._Handler.do_GET

    def answer_late(handler):
        time.sleep(0.3)
        answer(handler)

    with files.file_server(npy.parent) as server:
        loader = streamed(f"{server.url}/npy", tmp_path)
        monkeypatch.setattr(files._Handler, "do_GET", answer_late)
        check_verdict(
            loader, 0.001, "network", "were not in the cache when they were due", "give loader.cache.bytes more"
        )


def test_one_thread_that_is_held_up_between_batches_is_not_told_to_read_further_ahead(npy, monkeypatch):
    class Held(SimpleQueue):
        """As where a crowded core is taken from whoever has Python's lock."""

        def put(self, item):
            if threading.current_thread().name.startswith("tokenyard-loader"):
                time.sleep(0.02)
            super().put(item)

    monkeypatch.setattr("tokenyard.datasets.prefetch.SimpleQueue", Held)
    loader = loader_of(npy, batch=512, num_threads=1, sample={"boundaries": True})
    check_verdict(loader, 0, "threads", "are finding, copying and making tensors")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system can't keep processes on a core")
def test_workers_without_a_core_are_told(npy):
    loader = loader_of(npy, batch=64, num_workers=1, persistent_workers=True, sample={"boundaries": True})
    with one_crowded_core() as (to_one, to_all):
        check_verdict(loader, 0.003, "cpu", "are waiting for a core", before=to_one, after=to_all)


def test_a_loop_that_begins_late_gets_the_verdict_of_its_steps(npy, monkeypatch):
    slow_storage(monkeypatch, lambda: 0.004)
    loader = loader_of(npy, read="pread", cache_bytes=0, num_threads=1)
    with tokenyard.Monitor(loader, every_steps=20, quiet=True) as monitor:
        time.sleep(3)
        for _ in itertools.islice(loader, 22):
            time.sleep(0.01)
    first = monitor.reports[0]
    assert first.figures.stepping_seconds < first.figures.seconds - 2
    assert first.verdict.kind == "disk", first.verdict
