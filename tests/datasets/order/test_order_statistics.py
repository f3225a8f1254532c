"""Permutations mix as well as NumPy's shuffle does: the same statistics of both, over fixed seeds, differ by chance.

Each test compares means over many permutations. They may differ by five of their common standard errors, which for
honest shuffles happens about once in two million trials, and seeds are fixed: a test that passes once passes always.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tokenyard.datasets.order import Order, Shuffle, key, perm, place, resolve, walk

LARGE = 2**20 + 7
Array = NDArray[Any]
Statistic = Callable[[Array, int], Array]


def ours(n: int, num_seen: int, num_seeds: int) -> Array:
    return np.array([perm(n, key(seed, 0, 0, 0), np.arange(num_seen)) for seed in range(num_seeds)])


def numpys(n: int, num_seen: int, num_seeds: int) -> Array:
    return np.array([np.random.default_rng(seed).permutation(n)[:num_seen] for seed in range(num_seeds)])


def correlation(samples: Array, n: int, distance: int) -> Array:
    centred = (samples - (n - 1) / 2) / n
    return np.asarray((centred[:, distance:] * centred[:, :-distance]).mean(axis=1))


def neighbours_kept(samples: Array, n: int) -> Array:
    return np.asarray((np.abs(np.diff(samples, axis=1)) == 1).sum(axis=1).astype(float))


def distance_moved(samples: Array, n: int) -> Array:
    return np.asarray(np.abs(samples - np.arange(samples.shape[1])).mean(axis=1) / n)


def ascents(samples: Array, n: int) -> Array:
    return np.asarray((np.diff(samples, axis=1) > 0).mean(axis=1))


def near_neighbours(samples: Array, n: int) -> Array:
    return np.asarray((np.abs(np.diff(samples, axis=1)) < n / 100).mean(axis=1))


def low_bit_repeats(samples: Array, n: int) -> Array:
    return np.asarray((samples[:, 1:] % 2 == samples[:, :-1] % 2).mean(axis=1))


def assert_alike(a: Array, b: Array) -> None:
    standard_error = np.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)
    assert abs(a.mean() - b.mean()) <= 5 * standard_error
    # As even as chance, and no more: the spread over seeds is that of the yardstick.
    assert 0.6 < a.std(ddof=1) / b.std(ddof=1) < 1.6


@pytest.fixture(scope="module", params=[(1000, 1000, 400), (LARGE, 4096, 60)], ids=["table", "network"])
def both(request: pytest.FixtureRequest) -> tuple[int, Array, Array]:
    n = request.param[0]
    return n, ours(*request.param), numpys(*request.param)


@pytest.mark.parametrize("distance", [1, 2, 3, 32, 512])
def test_samples_at_a_distance_are_as_independent_as_numpys(both: tuple[int, Array, Array], distance: int) -> None:
    n, a, b = both
    assert_alike(correlation(a, n, distance), correlation(b, n, distance))


@pytest.mark.parametrize("distance", [1024, 2048, 4096])
def test_samples_that_share_half_their_bits_are_as_independent_as_numpys(distance: int) -> None:
    # Positions of 21 bits: two rounds of a network fail this, since its halves have 10 and 11.
    a, b = ours(LARGE, 8192, 40), numpys(LARGE, 8192, 40)
    assert_alike(correlation(a, LARGE, distance), correlation(b, LARGE, distance))


@pytest.mark.parametrize(
    "statistic", [distance_moved, near_neighbours, ascents, low_bit_repeats], ids=lambda s: s.__name__
)
def test_a_statistic_of_permutations_is_that_of_numpys(both: tuple[int, Array, Array], statistic: Statistic) -> None:
    n, a, b = both
    assert_alike(statistic(a, n), statistic(b, n))


def test_neighbours_stay_neighbours_as_rarely_as_numpys() -> None:
    a, b = ours(1000, 1000, 400), numpys(1000, 1000, 400)
    assert_alike(neighbours_kept(a, 1000), neighbours_kept(b, 1000))


def chi_square(samples: Array, n: int, num_bins: int = 10) -> float:
    """How far the counts of (tenth of positions, tenth of samples) are from even."""
    seen = samples.shape[1]
    position_bin = np.broadcast_to(np.arange(seen) * num_bins // seen, samples.shape)
    counts = np.zeros((num_bins, num_bins))
    np.add.at(counts, (position_bin, samples * num_bins // n), 1)
    expected = counts.sum() / num_bins**2
    return float(((counts - expected) ** 2 / expected).sum())


def test_no_position_prefers_a_part_of_the_samples(both: tuple[int, Array, Array]) -> None:
    n, a, b = both
    # About 100 degrees of freedom, fewer when whole permutations fix the margins: mean at most 100, deviation 14.
    assert chi_square(a, n) < 100 + 5 * 14
    assert chi_square(b, n) < 100 + 5 * 14


def test_first_positions_over_seeds_are_even() -> None:
    first = np.array([perm(100, key(seed, 0, 0, 0), np.arange(3)) for seed in range(20_000)])
    for position in range(3):
        counts = np.bincount(first[:, position], minlength=100)
        # 99 degrees of freedom.
        assert ((counts - 200) ** 2 / 200).sum() < 99 + 5 * 14.1


def test_first_positions_of_a_network_over_seeds_are_even() -> None:
    first = np.array([perm(LARGE, key(seed, 0, 0, 0), np.arange(3)) for seed in range(4_000)])
    for position in range(3):
        counts = np.bincount(first[:, position] * 100 // LARGE, minlength=100)
        assert ((counts - 40) ** 2 / 40).sum() < 99 + 5 * 14.1


@pytest.mark.parametrize("n", [1000, LARGE])
def test_keys_of_neighbouring_epochs_share_nothing(n: int) -> None:
    positions = np.arange(1000)
    epochs = [perm(n, key(7, epoch, 2, 0), positions) / n - 0.5 for epoch in range(40)]
    products = np.array([(a * b).mean() for a, b in pairwise(epochs)])
    # Each product has mean 0 and deviation (1/12) / sqrt(1000).
    assert np.abs(products).max() < 5 / 12 / np.sqrt(1000)


def test_block_shuffle_spreads_global_batches_over_the_corpus_as_a_full_shuffle_does() -> None:
    num_samples, size = 10**6, 512
    means = {}
    for shuffle in ("block", "global"):
        order = resolve(num_samples=num_samples, global_batch_size=size, seed=3, shuffle=shuffle)
        positions = np.arange(num_samples // size * size)
        lanes = positions.reshape(order.lanes, -1, size // order.lanes).swapaxes(0, 1).reshape(-1, size)
        means[shuffle] = place(order, num_samples, 0, lanes).mean(axis=1) / num_samples
    # A batch of 512 single samples has a mean that varies by sqrt(1/12/512); one of 64 order blocks by sqrt(1/12/64).
    assert means["global"].std() == pytest.approx((1 / 12 / 512) ** 0.5, rel=0.1)
    assert means["block"].std() == pytest.approx((1 / 12 / 64) ** 0.5, rel=0.2)


def placed(order: Order, n: int, num_seen: int, num_seeds: int, lanes: int = 1) -> Array:
    """Samples in the order in which an epoch gives them, one epoch a seed."""
    size = 16 * lanes
    steps = [walk(n, size, lanes, step, np.arange(size)) for step in range(num_seen // size)]
    positions = np.concatenate(steps)
    return np.array([place(replace(order, seed=seed, lanes=lanes), n, 0, positions) for seed in range(num_seeds)])


def numpys_blocks(order: Order, n: int, num_seen: int, num_seeds: int, lanes: int = 1) -> Array:
    """The same by NumPy's shuffle: of the blocks, then of each window."""
    size, unit = 16 * lanes, order.block_samples * order.window_blocks
    positions = np.concatenate([walk(n, size, lanes, step, np.arange(size)) for step in range(num_seen // size)])
    found = []
    for seed in range(num_seeds):
        rng = np.random.default_rng(seed)
        if order.shuffle == "global":
            found.append(rng.permutation(n)[positions])
            continue
        blocks = rng.permutation(-(-n // order.block_samples))
        laid_out = (blocks[:, None] * order.block_samples + np.arange(order.block_samples)).ravel()
        laid_out = laid_out[laid_out < n]
        for start in range(0, int(positions.max()) + 1, unit):
            rng.shuffle(laid_out[start : start + unit])
        found.append(laid_out[positions])
    return np.array(found)


PLACEMENTS = {
    "global, table": (Order(shuffle="global", seed=0, block_samples=1, window_blocks=1, lanes=1), 1000, 992, 300, 1),
    "global, network": (Order(shuffle="global", seed=0, block_samples=1, window_blocks=1, lanes=1), LARGE, 4096, 40, 1),
    "block": (Order(shuffle="block", seed=0, block_samples=20, window_blocks=8, lanes=1), 7993, 7984, 200, 1),
    "block, lanes": (Order(shuffle="block", seed=0, block_samples=20, window_blocks=2, lanes=1), 7993, 7936, 200, 8),
    "block, network": (Order(shuffle="block", seed=0, block_samples=512, window_blocks=2100, lanes=1), 1_500_000,
                       4096, 40, 1),
}  # fmt: skip


@pytest.fixture(scope="module", params=PLACEMENTS.values(), ids=PLACEMENTS)
def both_placed(request: pytest.FixtureRequest) -> tuple[int, Array, Array]:
    return request.param[1], placed(*request.param), numpys_blocks(*request.param)


@pytest.mark.parametrize("distance", [1, 2, 3, 16, 160, 500])
def test_samples_of_an_epoch_are_as_independent_as_if_numpy_had_shuffled(
    both_placed: tuple[int, Array, Array], distance: int
) -> None:
    n, a, b = both_placed
    assert_alike(correlation(a, n, distance), correlation(b, n, distance))


@pytest.mark.parametrize(
    "statistic", [distance_moved, near_neighbours, ascents, low_bit_repeats], ids=lambda s: s.__name__
)
def test_a_statistic_of_epochs_is_that_of_numpys_shuffle(
    both_placed: tuple[int, Array, Array], statistic: Statistic
) -> None:
    n, a, b = both_placed
    assert_alike(statistic(a, n), statistic(b, n))


@pytest.mark.parametrize("shuffle", ["global", "block"])
def test_no_position_of_an_epoch_prefers_a_part_of_the_corpus(shuffle: Shuffle) -> None:
    # One position in each tenth of the epoch: over seeds its samples are independent, order blocks or not.
    n, positions = 7993, np.arange(10) * 799 + 400
    order = Order(shuffle=shuffle, seed=0, block_samples=20, window_blocks=8, lanes=1)
    samples = np.array([place(replace(order, seed=seed), n, 0, positions) for seed in range(1500)])
    # 90 degrees of freedom: each position's counts sum to the number of seeds.
    assert chi_square(samples, n) < 90 + 5 * 13.4
    assert abs(samples.mean() / n - 0.5) < 5 * (1 / 12 / samples.size) ** 0.5


def test_epochs_of_block_shuffle_share_nothing_with_the_one_before() -> None:
    n, positions = 8000, np.arange(8000)
    order = Order(shuffle="block", seed=3, block_samples=20, window_blocks=8, lanes=1)
    epochs = [place(order, n, epoch, positions) / n - 0.5 for epoch in range(60)]
    products = np.array([(a * b).mean() for a, b in pairwise(epochs)])
    # The mean of 8 order blocks, a window, has a variance of 1/12/8; so has the product of two, as a deviation.
    assert np.abs(products).max() < 5 / 12 / 8 / np.sqrt(50)
    assert abs(products.mean()) < 5 * products.std() / np.sqrt(products.size)
