"""How rates are measured: in turn, and with the last batch checked."""

import time
from itertools import count, islice

import pytest

from benchmarks.timing import contender, contest, forever


def test_contenders_take_turns_and_the_median_counts():
    asked = []
    rates = {"a": iter([1.0, 9.0, 3.0]), "b": iter([4.0, 5.0, 60.0])}
    found = contest({name: lambda s, n=name: (asked.append((n, s)), next(rates[n]))[1] for name in rates}, 3, 0.5)
    assert found == {"a": 3.0, "b": 5.0}
    assert asked == [("a", 0.5), ("b", 0.5)] * 3


def test_a_rate_is_samples_by_seconds_and_leaves_out_what_was_read_ahead():
    taken, seen = [], []

    def slow():
        for number in count():
            time.sleep(0.002)
            taken.append(number)
            yield number

    rate = contender(slow(), 4, seen.append, settle=3)(0.05)
    assert 0 < rate <= 4 / 0.002
    assert seen == [taken[-1]]
    assert len(taken) > 3


def test_epochs_follow_one_another():
    assert list(islice(forever([1, 2]), 5)) == [1, 2, 1, 2, 1]


def test_an_empty_epoch_is_an_error_and_no_endless_loop():
    with pytest.raises(ValueError, match="gives no batches"):
        next(forever([]))
