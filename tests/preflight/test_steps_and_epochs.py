"""How far the run goes: steps of ranks, sources that end it, and how often each source is gone through."""

import pytest

from tests.preflight.looked import look, settings, the_line, write_corpora
from tests.runs import RUNS
from tokenyard.datasets.batches import FixedBatches


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("name", RUNS)
def test_all_ranks_have_equally_many_steps(home, name):
    the_line(look(settings(home, **RUNS[name])), "steps", "pass", match="steps, of .* on all 2 ranks alike")


def test_micro_batches_are_counted_too(home):
    report = look(settings(home, micro_batch_size=2))
    the_line(report, "steps", "pass", match="an epoch has 21 steps, of 42 micro-batches, on all 2 ranks alike")


def test_ranks_with_different_numbers_of_micro_batches_fail(home, monkeypatch):
    monkeypatch.setattr(FixedBatches, "num_micro_batches", lambda batches, start, stop: stop - start + batches.rank)
    report = look(settings(home))
    the_line(report, "steps", "fail", match="different numbers of steps: rank 0 has 21 in 21 .*; rank 1 has 21 in 22")


@pytest.mark.parametrize(("at_end", "status"), [("stop", "warn"), ("raise", "fail")])
def test_a_source_that_ends_the_run_before_the_planned_steps_is_told(home, at_end, status):
    config = settings(home, mixture=True, code={"at_end": at_end, "max_epochs": 2})
    report = look(config, steps=500)
    the_line(report, "steps", status, match=rf"source 'code' ends the run before step \d+ of 500.* {at_end} after 2")
    the_line(look(config, steps=5), "steps", "pass", match="an epoch has 39 steps")


def test_a_source_that_is_repeated_ten_times_warns(home):
    report = look(settings(home, mixture=True), steps=170)
    code = the_line(report, "epochs", "warn", source="code", match="repeated more than 4 times: .*lower its weight")
    assert 8 < float(code.found.split(": ")[1].split()[0]) < 9
    the_line(look(settings(home, mixture=True), steps=20), "epochs", "pass", source="code")


def test_a_single_corpus_that_is_repeated_warns(home):
    the_line(look(settings(home), steps=210), "epochs", "warn", match="10 epochs in 210 steps")
    the_line(look(settings(home), steps=84), "epochs", "pass", match="4 epochs in 84 steps")


def test_a_source_that_is_not_begun_warns(home):
    config = settings(home, mixture=True, weights=(0.999, 0.001), order={"lanes": 1})
    the_line(look(config, steps=1), "epochs", "warn", source="code", match="not begun: .*raise its weight")


def test_a_mixture_without_end_is_planned_for_10_000_steps(home):
    assert look(settings(home, mixture=True)).steps == 10_000
