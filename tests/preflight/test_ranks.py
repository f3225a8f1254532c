"""The ranks that are planned: given, told by the environment, or assumed; and batches that they can't share."""

import pytest

from tests.preflight.looked import look, settings, the_line, write_corpora
from tests.runs import OF_ROWS, RAMP
from tokenyard.errors import ConfigError


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


def test_a_batch_that_the_ranks_do_not_divide_fails(home):
    report = look(settings(home), ranks=3)
    the_line(report, "ranks", "fail", match="expected a multiple of world_size 3, found 8; the nearest: 6 and 9")
    assert any("the run can't be planned" in told for told in report.not_checked)
    assert report.ranks is None
    assert not report.ok


def test_a_micro_batch_that_does_not_divide_what_a_rank_has_fails(home):
    report = look(settings(home, micro_batch_size=3))
    the_line(report, "ranks", "fail", match="micro_batch_size: expected a divisor of the 4 samples of a rank")


def test_a_batch_of_a_later_segment_that_the_ranks_do_not_divide_fails(home):
    report = look(settings(home, order={"segments": RAMP}), ranks=8)
    the_line(report, "ranks", "fail", match=r"expected a multiple of world_size 8, found 4")


def test_micro_batches_of_a_budget_that_the_ranks_do_not_divide_fail(home):
    config = settings(home, sample=OF_ROWS, order={"token_budget": {"tokens": 48, "micro_batches": 4}})
    the_line(look(config, ranks=3), "ranks", "fail", match="micro_batches")


@pytest.mark.parametrize(
    ("order", "loader", "ranks", "allowed"),
    [
        ({"global_batch_size": 24}, {}, 8, "1, 2, 3, 4, 6, 8, 12, 24"),
        ({"global_batch_size": 12}, {}, 4, "1, 2, 3, 4, 6, 12"),
        ({"global_batch_size": 24}, {"micro_batch_size": 2}, 12, "1, 2, 3, 4, 6, 12"),
        ({"segments": RAMP}, {"micro_batch_size": 2}, 2, "1, 2"),
    ],
)
def test_ranks_that_nobody_told_are_those_that_batches_allow(home, monkeypatch, order, loader, ranks, allowed):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    report = look(settings(home, order=order, **loader), ranks=None)
    the_line(report, "ranks", "warn", match=rf"assumed.*by --ranks; the settings allow {allowed}$")
    assert report.ranks == ranks


def test_ranks_are_those_of_torchrun_where_it_tells(home, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    the_line(look(settings(home), ranks=None), "ranks", "pass", match="on each of 4 ranks at the first step, 2 a node")
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(ConfigError, match="WORLD_SIZE: expected a whole number from 1 on, found 'many'"):
        look(settings(home), ranks=None)


@pytest.mark.parametrize("name", ["ranks", "ranks_per_node", "steps"])
def test_numbers_below_one_are_refused(home, name):
    with pytest.raises(ConfigError, match=f"{name}: expected a whole number from 1 on, found 0"):
        look(settings(home), **{name: 0})
