"""The proof that each sample goes to one rank, once: it holds for every run, and fails where an order is broken."""

import numpy as np
import pytest

from tests.preflight.looked import look, settings, the_line, write_corpora
from tests.runs import RUNS
from tokenyard.datasets.order import draws
from tokenyard.datasets.order.epochs import EpochCourse
from tokenyard.datasets.order.mixture import MixtureCourse
from tokenyard.datasets.order.partition import Partition
from tokenyard.datasets.order.plan import Plan
from tokenyard.preflight import inverse, partition, planned


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def as_if_large(monkeypatch):
    """Let no epoch be small enough to be counted."""
    monkeypatch.setattr(partition, "_MOST_SAMPLES", 0)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("name", RUNS)
def test_every_run_is_counted_at_any_number_of_ranks(home, name, ranks):
    report = look(settings(home, **RUNS[name]), ranks=ranks)
    match = rf"^counted, .* steps.*once, none twice.*{ranks} of {ranks} ranks"
    the_line(report, "partition", "pass", match=match)


@pytest.mark.parametrize("name", [name for name in RUNS if "budget" not in name])
def test_every_run_that_is_not_counted_is_held_to_the_inverse_of_its_order(home, name, as_if_large):
    report = look(settings(home, **RUNS[name]))
    the_line(report, "partition", "pass", match=r"^by the inverse of the order, at \d+ of .* steps.*nowhere else")


def test_what_is_left_over_is_counted(home):
    the_line(look(settings(home)), "partition", "pass", match="168 samples are taken once.* 1 samples left over")
    padded = settings(home, **RUNS["padded"])
    the_line(look(padded), "partition", "pass", match="169 samples are taken once, none twice, none left out")


def test_epochs_of_a_mixtures_sources_are_gone_through(home):
    report = look(settings(home, **RUNS["mixture"]))
    the_line(
        report, "partition", "pass", match="2 epochs of sources are complete, but for fewer samples than the 8 lanes"
    )


def broken_place(monkeypatch):
    """Let the order put one sample at two neighbouring positions."""
    place = draws.place
    monkeypatch.setattr(
        draws, "place", lambda order, n, epoch, positions, source: place(order, n, epoch, positions // 2, source)
    )


@pytest.mark.parametrize("name", ["windows", "ramp", "mixture", "grouped", "budget"])
def test_an_order_that_takes_samples_twice_fails(home, name, monkeypatch):
    broken_place(monkeypatch)
    report = look(settings(home, **RUNS[name]))
    the_line(report, "partition", "fail", match=r"sample \d+ of web is taken 2 times in epoch 0.*don't train with it")
    assert not report.ok


@pytest.mark.parametrize("name", ["windows", "mixture"])
def test_an_order_that_takes_samples_twice_is_seen_by_its_inverse(home, name, monkeypatch, as_if_large):
    broken_place(monkeypatch)
    report = look(settings(home, **RUNS[name]))
    the_line(report, "partition", "fail", match="but by the inverse of the order at")


def test_an_order_that_swaps_samples_of_far_steps_is_seen_by_its_inverse(home, monkeypatch, as_if_large):
    place = draws.place
    monkeypatch.setattr(
        draws, "place", lambda order, n, epoch, positions, source: (place(order, n, epoch, positions, source) + 1) % n
    )
    the_line(look(settings(home)), "partition", "fail", match=r"taken at step \d+ in its epoch 0, but by the inverse")


def test_an_order_that_forgets_samples_fails(home, monkeypatch):
    epoch_range = Plan.epoch_range
    monkeypatch.setattr(Plan, "epoch_range", lambda plan, epoch: (0, epoch_range(plan, epoch)[1] - 3))
    the_line(
        look(settings(home)), "partition", "fail", match="25 of 169 samples are taken by no rank; expected at most 7"
    )


def test_ranks_that_overlap_fail(home, monkeypatch):
    monkeypatch.setattr(
        Partition, "slots", property(lambda p: np.arange(p.rank_batch_size).reshape(-1, p.micro_batch_size))
    )
    the_line(look(settings(home)), "partition", "fail", match="rank 1 takes other samples at step 0 than its part")


def test_an_epoch_of_a_source_that_lacks_a_sample_fails(home, monkeypatch):
    whole = MixtureCourse.draws

    def lacking(*args):
        found = whole(*args)
        found.epochs[(found.sources == 1) & (found.epochs == 0) & (found.sample_ids == 3)] = 9
        return found

    monkeypatch.setattr(MixtureCourse, "draws", lacking)
    report = look(settings(home, **RUNS["mixture"]))
    the_line(report, "partition", "fail", match="epoch 0 of source 'code' is over, but 47 samples of it .* not 48")


def test_samples_that_are_drawn_of_all_find_what_is_wrong_between_the_steps_looked_at(home, monkeypatch, as_if_large):
    place, config = draws.place, settings(home, order={"shuffle": "none"})
    steps = partition._spread(21, partition._STEPS)
    (between, *_) = [step for step in range(21) if step not in steps]

    def broken(order, n, epoch, positions, source):
        found = place(order, n, epoch, positions, source)
        return np.where(positions // 8 == between, found ^ 1, found)

    monkeypatch.setattr(draws, "place", broken)
    the_line(look(config), "partition", "fail", match=rf"should be in slot \d of step {between}, which takes")


def test_samples_that_no_step_takes_are_found_by_drawing_some(home, monkeypatch, as_if_large):
    find = EpochCourse.find

    def forgetting(course, epoch, source, samples):
        found = find(course, epoch, source, samples)
        return [[], *found[1:]] if len(samples) == inverse._SAMPLES else found

    monkeypatch.setattr(EpochCourse, "find", forgetting)
    the_line(look(settings(home)), "partition", "fail", match="is taken at no step of epoch 0")


def test_samples_that_two_steps_take_are_found_by_drawing_some(home, monkeypatch, as_if_large):
    find = EpochCourse.find

    def doubling(course, epoch, source, samples):
        found = find(course, epoch, source, samples)
        return [2 * found[0], *found[1:]] if len(samples) == inverse._SAMPLES else found

    monkeypatch.setattr(EpochCourse, "find", doubling)
    the_line(look(settings(home)), "partition", "fail", match=r"is taken at \[\(\d+, \d\), \(\d+, \d\)\] of epoch 0")


def test_of_a_token_budget_over_very_many_rows_the_first_steps_are_looked_at(home, monkeypatch):
    monkeypatch.setattr(planned, "_MOST_ROWS", 10)
    monkeypatch.setattr(partition, "_FIRST_STEPS", 5)
    report = look(settings(home, **RUNS["budget"]), steps=9)
    match = "counted, the first 5 steps, not a whole epoch: .* once, none twice, the rest of the epoch was not gone"
    the_line(report, "partition", "pass", match=match)
    the_line(report, "steps", "pass", match="not counted: how many there are depends on the lengths of all rows")
