"""The schedule of a mixture is that of the specification: its vectors, its quotas, and how even it is."""

from fractions import Fraction

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenyard.datasets.order.schedule import PERIOD, Schedule, quotas, schedule
from tokenyard.errors import ConfigError

weights_of_few = st.lists(st.floats(0.01, 100), min_size=1, max_size=6)


def slow_quotas(weights: list[float]) -> list[int]:
    """Largest remainder in exact fractions, ties to the lower source."""
    total = sum(map(Fraction, weights))
    exact = [Fraction(weight) / total * PERIOD for weight in weights]
    counts = [int(share) for share in exact]
    for k in sorted(range(len(exact)), key=lambda k: (counts[k] - exact[k], k))[: PERIOD - sum(counts)]:
        counts[k] += 1
    return counts


def slow_schedule(of_quotas: list[int]) -> list[tuple[int, int]]:
    """All pairs (k, j < c_k) by ((2j+1) / (2 c_k), k)."""
    pairs = [(Fraction(2 * j + 1, 2 * c), k, j) for k, c in enumerate(of_quotas) for j in range(c)]
    return [(k, j) for _, k, j in sorted(pairs)]


def test_the_vectors_of_the_specification() -> None:
    found = schedule(quotas([0.5, 0.3, 0.2]))
    assert found.quotas == (32768, 19661, 13107)
    assert found.source[:12].tolist() == [0, 1, 2, 0, 1, 0, 0, 2, 1, 0, 0, 1]
    assert blake3(found.source.astype("<u8").tobytes()).hexdigest()[:16] == "00e194145ba6312d"


@given(weights_of_few)
@example([1.0, 1.0, 1.0])
@example([1.0] * 6)
@example([3, 3, 1, 1])
def test_quotas_are_by_largest_remainder_with_ties_to_the_lower_source(weights: list[float]) -> None:
    assert list(quotas(weights)) == slow_quotas(weights)


@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.2], [1, 1, 1], [7], [1, 1000, 1, 1]])
def test_the_schedule_is_all_pairs_by_their_place_in_the_period(weights: list[float]) -> None:
    found = schedule(quotas(weights))
    expected = slow_schedule(list(quotas(weights)))
    assert list(zip(found.source.tolist(), found.nth.tolist(), strict=True)) == expected


def furthest_from_share(found: Schedule) -> list[float]:
    """For each source, the most that its count ever is away from its share, over all prefixes of the period."""
    prefixes = np.arange(PERIOD + 1)
    return [
        float(np.abs(np.concatenate([[0], np.cumsum(found.source == k)]) - prefixes * (c / PERIOD)).max())
        for k, c in enumerate(found.quotas)
    ]


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=3))
@settings(max_examples=40)
def test_up_to_three_sources_are_never_one_draw_from_their_shares_at_any_prefix(weights: list[float]) -> None:
    assert max(furthest_from_share(schedule(quotas(weights)))) < 1


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=40))
@example([0.96, 0.01, 0.01, 0.01, 0.01])
@example([0.5] + [0.001] * 39)
@settings(max_examples=40)
def test_a_count_is_never_further_from_its_share_than_half_a_draw_for_each_source_that_may_be_late(
    weights: list[float],
) -> None:
    found = schedule(quotas(weights))
    for away, c in zip(furthest_from_share(found), found.quotas, strict=True):
        assert away <= (1 + c / PERIOD * (len(weights) - 2)) / 2 + 1e-9


def test_sources_of_equal_weights_that_come_together_put_a_large_one_more_than_a_draw_off() -> None:
    # The four small ones are first due at one and the same moment; until then all 48 draws are of the large one.
    found = schedule(quotas([0.96, 0.01, 0.01, 0.01, 0.01]))
    assert found.source[:52].tolist() == [0] * 48 + [1, 2, 3, 4]
    assert 1.9 < furthest_from_share(found)[0] < 2


@given(weights_of_few, st.data())
def test_counts_and_draws_are_each_others_inverse_at_any_distance(weights: list[float], data: st.DataObject) -> None:
    found = schedule(quotas(weights))
    k = data.draw(st.integers(0, len(weights) - 1))
    nth = data.draw(st.integers(0, 10**12))
    draw = found.draw_of(k, nth)
    assert found.counts_before(k, np.array([draw, draw + 1])).tolist() == [nth, nth + 1]
    assert found.source[draw % PERIOD] == k
    assert found.draw_of(k, nth + 2**70 * found.quotas[k]) == draw + 2**70 * PERIOD


@given(weights_of_few, st.integers(0, 3 * PERIOD))
@settings(max_examples=20)
def test_counts_before_a_draw_are_those_of_going_there(weights: list[float], draw: int) -> None:
    found = schedule(quotas(weights))
    gone_through = np.bincount(found.source[np.arange(draw) % PERIOD], minlength=len(weights))
    assert [int(found.counts_before(k, np.array(draw))) for k in range(len(weights))] == gone_through.tolist()


def test_one_schedule_serves_all_and_can_not_be_written() -> None:
    found = schedule(quotas([1, 2]))
    assert schedule(quotas([10, 20])) is found
    with pytest.raises(ValueError, match="read-only"):
        found.source[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        found.nth[0] = 1


@pytest.mark.parametrize("weight", [0, 0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="weight of source 1: expected a finite number above 0, found"):
        quotas([1.0, weight])


def test_a_weight_that_would_never_be_drawn_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"weight of source 1: 1 is 7\.6e-06 of all weights, and less than 1/131072"):
        quotas([131_072, 1])
    assert quotas([131_070, 1]) == (PERIOD - 1, 1)


def test_a_weight_that_loses_its_only_draw_to_larger_remainders_is_refused() -> None:
    # Its share is above 1/131,072, but the draws that are left go to larger remainders.
    with pytest.raises(
        ConfigError, match=r"source 2: 0\.0117188 is 9\.1e-06 of all weights, less than one draw in 65536"
    ):
        quotas([908.0, 383.125, 0.01171875])
    # 5 of 8.2 draws are left for ten sources with 0.51 each.
    with pytest.raises(ConfigError, match=r"less than one draw in 65536, and with so many sources it would never"):
        quotas([PERIOD - 5.1, *[0.51] * 10])


def test_weights_whose_sum_is_no_float_have_their_shares() -> None:
    assert quotas([1e308, 1e308]) == (32768, 32768)


def test_equal_remainders_go_to_the_earlier_sources_however_floats_round_them() -> None:
    assert quotas([2, 5, 5]) == (10923, 27307, 27306)
    assert quotas([1, 1, 1]) == (21846, 21845, 21845)
