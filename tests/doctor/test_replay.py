"""What steps would wait, reckoned from how batches came when nobody made them wait."""

import pytest

from tokenyard.doctor.replay import replayed_waits


def test_a_loader_that_is_slower_than_steps_lets_each_wait_for_the_difference():
    waits = replayed_waits([0.3] * 20, per_step=1, step_seconds=0.1, ahead=4)
    assert waits[10:] == pytest.approx([0.2] * 10)


def test_a_loader_that_is_quicker_lets_only_the_first_step_wait():
    waits = replayed_waits([0.05] * 20, per_step=1, step_seconds=0.1, ahead=2)
    assert waits == pytest.approx([0.05] + [0.0] * 19)


@pytest.mark.parametrize(("ahead", "longest"), [(2, 0.6), (4, 0.4), (12, 0.0)])
def test_a_late_batch_is_waited_for_less_the_more_are_there_before_it(ahead, longest):
    seconds = [0.0] * 20 + [0.8] + [0.0] * 20
    waits = replayed_waits(seconds, per_step=1, step_seconds=0.1, ahead=ahead)
    assert max(waits) == pytest.approx(longest)


def test_what_is_made_when_it_is_asked_for_is_waited_for_each_time():
    assert replayed_waits([0.02] * 4, per_step=1, step_seconds=0.1, ahead=0) == pytest.approx([0.02] * 4)


def test_micro_batches_of_a_step_are_taken_evenly_over_it():
    waits = replayed_waits([0.04] * 8, per_step=4, step_seconds=0.1, ahead=8)
    assert len(waits) == 2
    assert waits == pytest.approx([0.04 + 3 * 0.015, 4 * 0.015])
