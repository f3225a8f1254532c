"""What a streamed corpus's cache did is told in each window, wherever reports go."""

import io
from dataclasses import replace

import pytest

import tokenyard
from tests.monitor.runs import loader_of, streamed, write
from tests.servers.files import file_server
from tests.strict import strict
from tokenyard.storage.cache.counts import Counts


class Board:
    def __init__(self):
        self.scalars = []

    def add_scalar(self, name, value, step):
        self.scalars.append((name.removeprefix("tokenyard/"), value))


@pytest.fixture(scope="module")
def npy(tmp_path_factory):
    return write(tmp_path_factory.mktemp("monitor") / "npy", rows=2048)


def test_windows_tell_hits_waits_and_bytes_and_sum_up_to_the_loaders_counts(npy, tmp_path):
    stream, board = io.StringIO(), Board()
    with file_server(npy.parent) as server:
        loader = streamed(f"{server.url}/npy", tmp_path / "cache")
        before = loader.cache_counts
        options = {"stream": stream, "tensorboard": board, "jsonl": tmp_path / "m.jsonl"}
        reports = []
        for _ in range(2):  # a window each
            with tokenyard.Monitor(loader, every_steps=128, **options) as monitor:
                for _ in monitor:
                    pass
            reports += monitor.reports
        told = [report.figures.cache for report in reports]
        assert len(told) == 2
        sums = Counts(**{name: sum(getattr(c, name) for c in told) for name in vars(before)})
        assert sums == loader.cache_counts.since(before)
        assert sums.hits
        assert sums.bytes_fetched
    records = [strict(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [Counts(**record["cache"]) for record in records] == told
    drawn = [value for name, value in board.scalars if name == "cache_hits"]
    assert drawn == [cache.hits for cache in told]
    rates = [value for name, value in board.scalars if name == "fetched_mb_per_s"]
    assert rates == [record["fetched_mb_per_s"] for record in records]
    for report in reports:
        cache = report.figures.cache
        words = f"  cache {cache.hits} hits, {cache.waits} waits, {report.figures.fetched_mb_per_s:.1f} MB/s fetched"
        assert words in report.line()
        assert f"[tokenyard] {report.line()}\n" in stream.getvalue()


def test_what_was_evicted_too_early_is_in_the_line(npy):
    with tokenyard.Monitor(loader_of(npy), every_steps=64, quiet=True) as monitor:
        for _ in monitor:
            pass
    (report, *_) = monitor.reports
    late = replace(report.figures, cache=Counts(hits=5, waits=2, evicted_late=1))
    assert "  cache 5 hits, 2 waits, 1 evicted late, 0.0 MB/s fetched" in replace(report, figures=late).line()


def test_a_run_from_a_disk_has_no_cache_to_tell_of(npy):
    board = Board()
    with tokenyard.Monitor(loader_of(npy), every_steps=64, quiet=True, tensorboard=board) as monitor:
        for _ in monitor:
            pass
    (report, *_) = monitor.reports
    assert report.figures.cache is None
    assert report.record()["cache"] is report.record()["fetched_mb_per_s"] is None
    assert "cache" not in report.line()
    assert not any(name.startswith(("cache", "fetched")) for name, _ in board.scalars)
