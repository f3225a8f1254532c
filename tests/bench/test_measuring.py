"""Clocks, the page cache, memory and processes: what measuring is made of."""

import errno
import os
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.bench import memory, page_cache, rates
from tokenyard.bench.machine import describe_machine
from tokenyard.bench.metrics import figures_of
from tokenyard.bench.processes import run_json
from tokenyard.bench.quantities import short
from tokenyard.display.quantities import digits, power_with_unit, with_unit
from tokenyard.errors import BenchmarkError


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def steps(self, amounts, seconds):
        for amount in amounts:
            self.now += seconds
            yield amount


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(rates, "time", clock)
    return clock


def test_a_rate_is_what_all_steps_gave_over_the_time_that_they_took(clock):
    assert rates.rate(lambda: clock.steps([10, 20], 0.5), 3.0) == pytest.approx(30.0)


def test_making_ready_is_not_timed(clock):
    def begin():
        clock.now += 1000
        return clock.steps([10], 0.1)

    assert rates.rate(begin, 1.0) == pytest.approx(100.0)


def test_the_first_pass_goes_on_to_its_end_and_later_ones_stop_in_time(clock):
    begun = clock.now
    rates.rate(lambda: clock.steps([1] * 10, 0.25), 1.0)
    assert clock.now - begun == pytest.approx(2.5)
    rates.rate(lambda: clock.steps([1] * 1000, 0.25), 1.0)
    assert clock.now - begun == pytest.approx(12.5)


def test_one_pass_is_one_pass(clock):
    begun = clock.now
    assert rates.rate(lambda: clock.steps([5], 0.1), 1.0, once=True) == pytest.approx(50.0)
    assert clock.now - begun == pytest.approx(0.1)


def test_passes_that_give_nothing_end():
    assert rates.rate(list, 1.0) == 0.0


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_a_percentile_is_the_least_value_that_enough_are_within(values, share):
    found = rates.percentile(values, share)
    assert found in values
    assert sum(v <= found for v in values) >= share * len(values)
    assert sum(v < found for v in values) < share * len(values)


def test_latencies_stop_in_time_but_not_before_the_first(clock):
    def call():
        clock.now += 0.4

    assert rates.latencies([call] * 9, 1.0) == pytest.approx([0.4] * 3)
    assert rates.latencies([call] * 9, 0.1) == pytest.approx([0.4])


def test_figures_are_those_that_every_round_has():
    found = figures_of([{"a": 3.0, "b": 1.0}, {"a": 1.0}, {"a": 2.0}])
    assert list(found) == ["a"]
    assert (found["a"].median, found["a"].low, found["a"].high) == (2.0, 1.0, 3.0)


def test_the_page_cache_holds_what_was_read_and_less_of_what_was_dropped(tmp_path):
    files = [tmp_path / "a", tmp_path / "b", tmp_path / "empty"]
    for file, size in zip(files, (1 << 20, 12345, 0), strict=True):
        file.write_bytes(np.random.default_rng(0).bytes(size))
    assert page_cache.files_of(tmp_path) == files
    assert page_cache.warm(files) == (1 << 20) + 12345
    assert page_cache.resident_share(files) in (1.0, None)
    page_cache.drop(files)
    assert page_cache.resident_share(files) in (0.0, 1.0, None)  # 1: files that lie in memory


def test_without_a_call_for_it_nothing_is_dropped_and_nothing_said(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x" * 9000)
    monkeypatch.delattr(page_cache.os, "posix_fadvise", raising=False)
    page_cache.drop([tmp_path / "a"])
    monkeypatch.setattr(page_cache, "_libc", object())
    assert page_cache.resident_share([tmp_path / "a"]) is None


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EROFS, errno.EIO])
def test_files_of_file_systems_that_nobody_writes_to_are_dropped_too(tmp_path, monkeypatch, number):
    def refuse(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    (tmp_path / "a").write_bytes(bytes(8192))
    with pytest.raises(OSError, match="Input/output error") if number == errno.EIO else nullcontext():
        page_cache.drop([tmp_path / "a"])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no users")
def test_files_of_others_are_not_said_to_be_in_memory(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(8192))
    owner = (tmp_path / "a").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr(os, "access", lambda *args, **options: False)
    assert page_cache.resident_share([tmp_path / "a"]) is None


def test_memory_counts_arrays_but_no_pages_of_files(tmp_path, monkeypatch):
    before = memory.resident_bytes()
    if before is None:
        assert not memory._STATUS.exists()
        return
    held = np.ones(64 << 20, np.uint8)
    assert memory.resident_bytes() - before >= held.nbytes // 2
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "nowhere")
    assert memory.resident_bytes() is None


def test_the_machine_is_described_without_its_name(tmp_path):
    import platform

    found = describe_machine(tmp_path)
    assert found["cores"] >= 1
    assert found["versions"]["numpy"] == np.__version__
    assert platform.node() not in {str(value) for value in found.values()}


def run(code, **options):
    told = {"what": "the job", "deadline_s": 60.0, **options}
    return run_json([sys.executable, "-c", code], **told)


def test_the_last_line_of_a_process_is_its_answer(tmp_path):
    assert run("print('noise'); print('{\"a\": 1}')", folder=tmp_path) == {"a": 1}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit('no luck')", "the job: ended with status 1; the last that it said:\nno luck"),
        ("print('hello')", "the job: expected a JSON object as the last line of output, found 'hello'"),
        ("print('[1]')", "the job: expected a JSON object"),
        ("pass", "the job: expected a JSON object as the last line of output, found ''"),
        ('print(\'{"error": "DataError: bad"}\')', "the job: DataError: bad"),
    ],
)
def test_a_process_that_gives_no_answer_is_told(tmp_path, code, expected):
    with pytest.raises(BenchmarkError) as caught:
        run(code, folder=tmp_path)
    assert str(caught.value).startswith(expected)


def test_a_process_that_takes_too_long_is_ended(tmp_path):
    begun = time.monotonic()
    with pytest.raises(BenchmarkError, match=r"the job: not done after 0\.5 s; measure fewer tokens"):
        run("import time; time.sleep(600)", folder=tmp_path, deadline_s=0.5)
    assert time.monotonic() - begun < 60


def test_a_command_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BenchmarkError, match="the job: nowhere/python can't be run: No such file"):
        run_json(["nowhere/python"], what="the job", folder=tmp_path, deadline_s=1)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1234.5, "Mtok/s", "1,234 Mtok/s"),
        (12.34, "Mtok/s", "12.3 Mtok/s"),
        (4_200_000, "bytes", "4.20 MB"),
        (999.6, "bytes", "1.00 kB"),
        (0.5, "µs", "0.5 µs"),
        (1500, "µs", "1.50 ms"),
        (2500, "ms", "2.50 s"),
        (1.256, "x", "1.26x"),
    ],
)
def test_figures_are_written_with_three_digits_and_a_unit_that_fits(value, unit, expected):
    assert with_unit(value, unit) == expected


def test_metrics_know_their_units():
    assert short("row_p50", 65_000) == "65.0 ms"
    assert power_with_unit(10_000, "µs") == "10 ms"
    assert digits(0) == "0"
