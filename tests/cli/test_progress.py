"""What a long command says on standard error while it runs."""

import io
import sys

import pytest

from tests.cli.terminals import on_a_terminal
from tests.corpora import random_rows, write_corpus
from tokenyard.bench.settings import BenchSettings
from tokenyard.bench.steps import Step, Steps, guessed_seconds, seconds_left
from tokenyard.cli.progress import LogLines, progress, steps, told_progress, told_seconds, told_step
from tokenyard.converters.job import Progress


def made(share, seconds, unit="tokens"):
    done = round(share * 2_000_000)
    return Progress(rows=done // 100, tokens=done, bytes=2 * done, unit=unit, total=2_000_000, seconds=seconds)


def lines_of(shares_and_seconds):
    lines = LogLines()
    return [(share, seconds) for share, seconds in shares_and_seconds if lines.is_due(share, seconds)]


def test_a_job_of_a_few_seconds_says_nothing_in_a_log():
    assert lines_of([(n / 100, n * 0.049) for n in range(101)]) == []


def test_a_slow_job_says_less_and_less_often_how_far_it_is():
    hours = [(second / 360_000, float(second)) for second in range(3600)]
    assert [seconds for _, seconds in lines_of(hours)] == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560]


def test_a_log_gets_a_line_at_every_tenth_at_least():
    minutes = lines_of([(n / 1000, n * 10.0) for n in range(1001)])
    tenths = [int(share * 10) for share, _ in minutes]
    assert set(tenths) == set(range(11))
    assert len(minutes) <= 22


def test_a_log_is_not_told_the_same_twice():
    assert lines_of([(0.5, 6.0), (0.5, 6.1), (0.51, 9.9), (0.51, 10.0)]) == [(0.5, 6.0), (0.51, 10.0)]


def test_amounts_rate_and_the_time_left_are_told():
    assert told_progress(made(0.25, 10.0)) == (
        " 25%, 500,000 of 2,000,000 tokens, 5,000 rows, 0.05 Mtok/s, about 30 s left"
    )
    assert told_progress(made(0.25, 10.0, "bytes")) == (
        " 50%, 1 of 2 MB of input, 500,000 tokens, 5,000 rows, 0.05 Mtok/s, about 10 s left"
    )
    assert told_progress(made(1.0, 10.0)).endswith("Mtok/s")
    assert told_progress(made(0.0, 0.0)) == "  0%, 0 of 2,000,000 tokens, 0 rows"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (80, "1 min 20 s"), (7500, "2 h 5 min")]
)
def test_times_are_told_in_two_units_at_most(seconds, told):
    assert told_seconds(seconds) == told


def test_a_log_gets_plain_lines_and_nothing_that_redraws(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress("convert") as show:
        for second in range(41):
            show(made(second / 400, float(second)))
    assert log.getvalue().splitlines() == [
        f"convert: {told_progress(made(second / 400, float(second)))}" for second in (5, 10, 20, 40)
    ]


def test_a_terminal_gets_a_line_that_is_drawn_anew_and_goes(tmp_path):
    write_corpus(tmp_path / "a", random_rows(seed=1, num_rows=50, longest=60))
    drawn = on_a_terminal("convert", tmp_path / "a", tmp_path / "b", "--to", "mds", stream="stderr")
    assert "convert: 100%" in drawn
    assert drawn.endswith("\x1b[2K")


def test_a_benchmark_says_at_once_what_it_measures_and_how_long_all_will_take(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with steps("bench") as show:
        counted = Steps(BenchSettings(), 60, show)
        counted.tell("write mds [zstd]")
        counted.tell("read mds [zstd]")
    assert log.getvalue() == "bench: 1 of 60, write mds [zstd], about 5 min 0 s left\n"


def test_a_step_tells_its_number_and_what_is_left():
    step = Step(done=3, steps=60, what="read csv", seconds=30.0, seconds_left=301.0)
    assert told_step(step) == "4 of 60, read csv, about 5 min 1 s left"


def test_the_time_left_follows_what_steps_really_took():
    assert seconds_left(0, 60, 0.0, 5.0) == 300
    assert seconds_left(30, 60, 305.0, 5.0) == 300
    assert seconds_left(60, 60, 900.0, 5.0) == 0
    assert guessed_seconds(BenchSettings(seconds=0.1, cold=False)) < guessed_seconds(BenchSettings(seconds=0.1)) < 2
