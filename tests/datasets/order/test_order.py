"""The order does what `order/1` says: its vectors, a slow obvious reading of it, and what was golden stays golden."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.datasets.order.slow_order import slow_epoch, slow_hash, slow_key, slow_perm, slow_walk
from tokenyard.datasets.order import (
    Order,
    Shuffle,
    key,
    pages,
    perm,
    place,
    resolve,
    splitmix,
    tail_positions,
    walk,
)
from tokenyard.datasets.order import order as order_module
from tokenyard.errors import ConfigError, TokenyardError
from tokenyard.permutation import keyed
from tokenyard.permutation.keyed import perm_inverse, perm_inverses
from tokenyard.permutation.table_cache import TABLES, TableCache

GOLDEN = json.loads((Path(__file__).parent / "golden_order.json").read_text())
MASK = 2**64 - 1


def digest(samples: np.ndarray) -> str:
    return blake3(samples.astype("<u8").tobytes()).hexdigest()[:16]


def block_order(seed: int, block_samples: int, window_blocks: int, lanes: int = 1) -> Order:
    return Order(shuffle="block", seed=seed, block_samples=block_samples, window_blocks=window_blocks, lanes=lanes)


def global_order(seed: int) -> Order:
    return Order(shuffle="global", seed=seed, block_samples=1024, window_blocks=64, lanes=1)


@pytest.fixture(params=[4, 2**20], ids=["networks", "tables"])
def table_limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Small sizes take either way of permuting: by tables, or by Feistel networks with pages of a few samples."""
    monkeypatch.setattr(keyed, "TABLE_LIMIT", request.param)
    monkeypatch.setattr(pages, "TABLE_LIMIT", request.param)
    monkeypatch.setattr(pages, "_PAGE_SIZE", 8)
    order_module._placement.cache_clear()
    order_module._permutation.cache_clear()
    yield request.param
    order_module._placement.cache_clear()
    order_module._permutation.cache_clear()


orders = st.builds(
    Order,
    shuffle=st.sampled_from(["none", "global"]),
    seed=st.integers(0, MASK),
    block_samples=st.just(4),
    window_blocks=st.just(2),
    lanes=st.just(1),
) | st.builds(
    Order,
    shuffle=st.just("block"),
    seed=st.integers(0, MASK),
    block_samples=st.integers(1, 40),
    window_blocks=st.integers(1, 12),
    lanes=st.sampled_from([1, 2, 8]),
)
epochs = st.integers(0, MASK)
with_fixture = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class TestVectorsOfTheSpecification:
    def test_ten_samples_in_blocks_of_four(self) -> None:
        samples = place(block_order(42, 4, 2), 10, 0, np.arange(10))
        assert samples.tolist() == [5, 0, 8, 4, 3, 1, 2, 9, 7, 6]

    def test_a_hundred_thousand_samples_in_blocks(self) -> None:
        samples = place(block_order(1, 1024, 4), 100_000, 3, np.arange(100_000))
        assert samples[:6].tolist() == [43761, 66209, 65541, 72625, 71776, 92315]
        assert digest(samples) == "d2a3230a3f615867"

    def test_a_permutation_too_large_for_a_table(self) -> None:
        samples = perm(2**20 + 7, 12345, np.arange(5))
        assert samples.tolist() == [300671, 18502, 208968, 989818, 719358]

    def test_a_thousand_samples_shuffled_globally(self) -> None:
        samples = place(global_order(42), 1000, 1, np.arange(1000))
        assert samples[:6].tolist() == [176, 854, 273, 82, 424, 164]
        assert digest(samples) == "28e8862498465d6e"

    def test_a_walk_in_32_lanes(self) -> None:
        order = block_order(1, 1024, 4, lanes=32)
        steps = [place(order, 100_000, 3, walk(100_000, 96, 32, step, np.arange(96))) for step in range(1041)]
        assert steps[0][:6].tolist() == [43761, 66209, 65541, 92487, 65951, 93127]
        assert digest(np.concatenate(steps)) == "3d5e478cab13e659"


class TestPermutation:
    @given(k=st.integers(0, MASK), i=st.lists(st.integers(0, MASK), max_size=20))
    def test_the_hash_is_that_of_the_specification(self, k: int, i: list[int]) -> None:
        assert splitmix(k, np.array(i, np.uint64)).tolist() == [slow_hash(k, number) for number in i]

    @given(st.tuples(*[st.integers(0, MASK)] * 4))
    def test_the_key_is_that_of_the_specification(self, numbers: tuple[int, int, int, int]) -> None:
        assert key(*numbers) == slow_key(*numbers)

    @given(n=st.integers(1, 300), k=st.integers(0, MASK))
    @with_fixture
    def test_small_sizes_follow_the_specification_in_full(self, table_limit: int, n: int, k: int) -> None:
        expected = [slow_perm(n, k, x, table_limit) for x in range(n)]
        assert perm(n, k, np.arange(n)).tolist() == expected
        assert sorted(expected) == list(range(n))

    @given(n=st.integers(2**20 + 1, 2**62 - 1), k=st.integers(0, MASK), data=st.data())
    @settings(deadline=None)
    def test_large_sizes_follow_the_specification_at_any_place(self, n: int, k: int, data: st.DataObject) -> None:
        x = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=8))
        assert perm(n, k, np.array(x)).tolist() == [slow_perm(n, k, place) for place in x]

    @pytest.mark.parametrize("n", [1, 2, 2**20 - 1, 2**20, 2**20 + 1, 2**20 + 7, 2**21 - 1, 2**21])
    def test_every_number_occurs_once(self, n: int) -> None:
        seen = np.zeros(n, np.bool_)
        seen[perm(n, 99, np.arange(n))] = True
        assert seen.all()

    @pytest.mark.parametrize("n", [2**21 + 1, 2**31 + 11, 10**12 + 7, 2**62 - 1])
    @pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
    def test_no_number_occurs_twice_in_a_range_of_a_large_size(self, n: int, where: float) -> None:
        start = min(int(where * n), n - 100_000)
        numbers = perm(n, 7, np.arange(start, start + 100_000))
        assert np.unique(numbers).size == numbers.size
        assert numbers.min() >= 0
        assert numbers.max() < n

    @given(n=st.integers(1, 2**62 - 1), k=st.integers(0, MASK), data=st.data())
    @settings(deadline=None, max_examples=50)
    def test_the_inverse_leads_back(self, n: int, k: int, data: st.DataObject) -> None:
        y = data.draw(st.integers(0, n - 1))
        assert perm(n, k, np.array([perm_inverse(n, k, y)])).tolist() == [y]

    @given(n=st.sampled_from([1, 9, 1000, 2**20, 2**20 + 1, 2**33 - 5, 2**62 - 1]), k=st.integers(0, MASK))
    @settings(deadline=None, max_examples=30)
    def test_the_inverse_of_many_leads_back(self, n: int, k: int) -> None:
        y = np.random.default_rng(k).integers(0, n, (3, 50))
        assert np.array_equal(perm(n, k, perm_inverses(n, k, y)), y)

    def test_a_call_larger_than_what_is_worked_on_at_once_is_the_same_in_pieces(self) -> None:
        x = np.arange(150_000)
        pieces = [perm(10**9, 5, x[start : start + 999]) for start in range(0, x.size, 999)]
        assert np.array_equal(perm(10**9, 5, x), np.concatenate(pieces))

    def test_what_is_returned_belongs_to_the_caller(self) -> None:
        first = perm(50, 3, np.arange(50))
        expected = first.copy()
        first[:] = -1
        assert np.array_equal(perm(50, 3, np.arange(50)), expected)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: perm(10, 0, np.array([10])), r"x: expected integers in \[0, 10\), found 10 to 10"),
            (lambda: perm(10, -1, np.array([1])), "k: expected an int from 0 to 18446744073709551615, found -1"),
            (lambda: perm(2**62, 0, np.array([1])), "n: expected an int from 0 to 4611686018427387903, found"),
            (lambda: perm_inverse(10, 0, 10), "y: expected an int from 0 to 9, found 10"),
            (lambda: key(-1, 0, 0, 0), "key: expected four ints from 0 to 18446744073709551615, found seed -1"),
        ],
    )
    def test_numbers_out_of_range_are_refused(self, call: Callable[[], object], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            call()


class TestPlace:
    @given(order=orders, num_samples=st.integers(0, 400), epoch=epochs)
    @with_fixture
    def test_an_epoch_follows_the_specification(
        self, table_limit: int, order: Order, num_samples: int, epoch: int
    ) -> None:
        expected = slow_epoch(order, num_samples, epoch, table_limit)
        assert place(order, num_samples, epoch, np.arange(num_samples)).tolist() == expected
        assert sorted(expected) == list(range(num_samples))

    @given(order=orders, num_samples=st.integers(1, 400), epoch=epochs, data=st.data())
    @with_fixture
    def test_positions_may_come_in_any_order_and_more_than_once(
        self, table_limit: int, order: Order, num_samples: int, epoch: int, data: st.DataObject
    ) -> None:
        positions = data.draw(st.lists(st.integers(0, num_samples - 1), max_size=60))
        expected = slow_epoch(order, num_samples, epoch, table_limit)
        samples = place(order, num_samples, epoch, np.array(positions, np.int64))
        assert samples.tolist() == [expected[position] for position in positions]

    @given(num_samples=st.integers(2**27, 2**61), data=st.data())
    @settings(deadline=None, max_examples=50)
    def test_blocks_too_many_for_a_table_follow_the_specification(self, num_samples: int, data: st.DataObject) -> None:
        order = block_order(seed=5, block_samples=data.draw(st.sampled_from([1, 7, 64])), window_blocks=3)
        position = data.draw(st.integers(0, num_samples - 1))
        size, num_blocks = order.block_samples, -(-num_samples // order.block_samples)
        start = position - position % (3 * size)
        q = start + slow_perm(
            min(3 * size, num_samples - start), slow_key(5, 2, 1, start // (3 * size)), position - start
        )
        blocks_key = slow_key(5, 2, 0, 0)
        short_place = perm_inverse(num_blocks, blocks_key, num_blocks - 1)
        short_by = num_blocks * size - num_samples
        if q >= (short_place + 1) * size - short_by:
            q += short_by
        expected = slow_perm(num_blocks, blocks_key, q // size) * size + q % size
        assert place(order, num_samples, 2, np.array([position])).tolist() == [expected]

    @pytest.mark.parametrize("shuffle", ["none", "global", "block"])
    @pytest.mark.parametrize("window_blocks", [1, 64, 3000])
    def test_a_trillion_samples_are_asked_at_once(self, shuffle: Shuffle, window_blocks: int) -> None:
        num_samples = 10**12 + 7
        order = Order(shuffle=shuffle, seed=1, block_samples=1024, window_blocks=window_blocks, lanes=1)
        ends = np.concatenate([np.arange(50_000), np.arange(num_samples - 50_000, num_samples)])
        samples = place(order, num_samples, 0, ends)
        assert np.unique(samples).size == samples.size
        assert samples.min() >= 0
        assert samples.max() < num_samples
        assert np.array_equal(place(order, num_samples, 0, ends[::-777]), samples[::-777])

    @pytest.mark.parametrize("window_blocks", [1, 64, 100, 5000])
    def test_windows_larger_and_smaller_than_a_table_cover_every_sample(self, window_blocks: int) -> None:
        num_samples = 3 * 2**20 + 5
        order = block_order(seed=3, block_samples=1024, window_blocks=window_blocks)
        seen = np.zeros(num_samples, np.bool_)
        seen[place(order, num_samples, 0, np.arange(num_samples))] = True
        assert seen.all()

    def test_a_window_holds_no_more_order_blocks_than_it_says(self) -> None:
        samples = place(block_order(seed=3, block_samples=100, window_blocks=4), 10_000, 0, np.arange(10_000))
        blocks_of_windows = samples.reshape(25, 400) // 100
        assert [np.unique(blocks).size for blocks in blocks_of_windows] == [4] * 25

    def test_epochs_and_seeds_give_different_orders(self) -> None:
        positions = np.arange(1000)
        samples = {
            tuple(place(order, 1000, epoch, positions))
            for order in (block_order(0, 8, 4), block_order(1, 8, 4), global_order(0), global_order(1))
            for epoch in range(3)
        }
        assert len(samples) == 12

    def test_lanes_change_no_sample_of_a_position(self) -> None:
        positions = np.arange(1000)
        one, many = (place(block_order(7, 16, 4, lanes), 1000, 0, positions) for lanes in (1, 8))
        assert np.array_equal(one, many)

    @pytest.mark.parametrize("shuffle", ["none", "global", "block"])
    def test_the_shape_is_kept_and_the_result_belongs_to_the_caller(self, shuffle: Shuffle) -> None:
        order = Order(shuffle=shuffle, seed=1, block_samples=4, window_blocks=2, lanes=1)
        positions = np.arange(24).reshape(2, 3, 4)
        samples = place(order, 30, 0, positions)
        assert samples.shape == (2, 3, 4)
        assert samples.dtype == np.int64
        expected = samples.copy()
        samples[:] = -1
        assert np.array_equal(positions, np.arange(24).reshape(2, 3, 4))
        assert np.array_equal(place(order, 30, 0, positions), expected)

    @pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.uint64])
    def test_other_integers_are_taken_for_what_they_are(self, dtype: type) -> None:
        expected = place(global_order(1), 30, 0, np.arange(30))
        assert np.array_equal(place(global_order(1), 30, 0, np.arange(30, dtype=dtype)), expected)

    def test_threads_get_the_same_samples_from_a_memory_too_small_for_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order, num_samples = block_order(seed=11, block_samples=64, window_blocks=8), 200_000
        expected = place(order, num_samples, 0, np.arange(num_samples))
        small = TableCache(max_bytes=3 * 64 * 8 * 8)
        monkeypatch.setattr(pages, "TABLES", small)
        failures: list[str] = []

        def read(thread: int) -> None:
            rng = np.random.default_rng(thread)
            for _ in range(30):
                start = int(rng.integers(0, num_samples - 3000))
                positions = np.arange(start, start + 3000)
                if not np.array_equal(place(order, num_samples, 0, positions), expected[positions]):
                    failures.append(f"thread {thread} at {start}")

        threads = [threading.Thread(target=read, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert 0 < small.num_bytes <= small.max_bytes

    def test_wide_lanes_find_room_for_the_windows_of_a_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TABLES, "max_bytes", 1)
        order = block_order(seed=12, block_samples=64, window_blocks=2, lanes=16)
        for step in range(2):
            place(order, 100_000, 0, walk(100_000, 16, 16, step, np.arange(16)))
        assert TABLES.max_bytes == 2 * 16 * 128 * 8

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda o: place(o, 10, 0, np.array([3, 10])), r"positions: expected integers in \[0, 10\), found 3 to 10"),
            (lambda o: place(o, 10, 0, np.array([-1, 3])), r"positions: expected integers in \[0, 10\), found -1 to 3"),
            (lambda o: place(o, 10, 0, np.array([2**63], np.uint64)), "found 9223372036854775808 to"),
            (lambda o: place(o, 10, 0, np.array([1.0])), "positions: expected integers, found dtype float64; convert"),
            (lambda o: place(o, 0, 0, np.array([0])), r"positions: expected integers in \[0, 0\)"),
            (lambda o: place(o, -1, 0, np.array([0])), "num_samples: expected an int from 0 to .*, found -1"),
            (lambda o: place(o, 10, -1, np.array([0])), "epoch: expected an int from 0 to .*, found -1"),
            (lambda o: place(o, 10.0, 0, np.array([0])), "num_samples: .* found 10.0 of type float; pass a plain int"),
        ],
    )
    def test_numbers_out_of_range_are_refused(self, call: Callable[[Order], object], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            call(global_order(1))


class TestWalk:
    @given(lanes=st.integers(1, 9), per_lane=st.integers(1, 9), num_samples=st.integers(0, 500))
    @settings(deadline=None)
    def test_every_position_is_taken_once_or_is_in_the_tail(self, lanes: int, per_lane: int, num_samples: int) -> None:
        size = lanes * per_lane
        taken = []
        for step in range(num_samples // size):
            positions = walk(num_samples, size, lanes, step, np.arange(size)).tolist()
            assert positions == slow_walk(num_samples, size, lanes, step)
            taken += positions
        tail = tail_positions(num_samples, size).tolist()
        assert len(tail) < size
        assert sorted(taken) + tail == list(range(num_samples))

    def test_each_lane_reads_on_in_its_own_stretch(self) -> None:
        positions = np.array([walk(100, 8, 4, step, np.arange(8)) for step in range(12)])
        assert positions[0].tolist() == [0, 1, 24, 25, 48, 49, 72, 73]
        assert [lane.ravel().tolist() for lane in np.split(positions, 4, axis=1)] == [
            list(range(start, start + 24)) for start in (0, 24, 48, 72)
        ]

    def test_a_rank_asks_for_its_own_slots_only(self) -> None:
        whole = walk(1000, 64, 8, 5, np.arange(64))
        assert np.array_equal(walk(1000, 64, 8, 5, np.arange(16, 24).reshape(2, 4)), whole[16:24].reshape(2, 4))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((100, 8, 3, 0), "lanes: expected a divisor of global_batch_size 8, found 3; leave lanes out"),
            ((100, 8, 0, 0), "lanes: expected an int from 1"),
            ((100, 0, 1, 0), "global_batch_size: expected an int from 1"),
            ((100, 8, 4, 12), "step: expected less than the 12 whole steps of 100 samples .* of 8, found 12; begin"),
            ((100, 8, 4, -1), "step: expected an int from 0"),
            ((7, 8, 4, 0), "step: expected less than the 0 whole steps"),
        ],
    )
    def test_what_makes_no_walk_is_refused(self, arguments: tuple[int, int, int, int], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            walk(*arguments, np.arange(8))

    def test_slots_outside_the_global_batch_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"slots: expected integers in \[0, 8\), found 0 to 8"):
            walk(100, 8, 4, 0, np.arange(9))


class TestResolve:
    @pytest.mark.parametrize(
        ("num_samples", "global_batch_size", "lanes", "window_blocks"),
        [
            (10**9, 64, 64, 1),
            (10**9, 1024, 64, 1),
            (10**9, 96, 32, 2),
            (10**9, 100, 4, 16),
            (10**9, 63, 1, 64),
            (65_536, 64, 64, 1),  # each lane has one order block exactly
            (65_535, 64, 32, 2),  # one sample less, and 64 lanes have 1,023 each
            (5000, 64, 4, 16),
            (1000, 64, 1, 64),
            (10, 64, 1, 64),  # no whole step
        ],
    )
    def test_lanes_and_windows_are_chosen_from_the_sizes(
        self, num_samples: int, global_batch_size: int, lanes: int, window_blocks: int
    ) -> None:
        order = resolve(num_samples=num_samples, global_batch_size=global_batch_size, seed=1)
        assert order == block_order(1, 1024, window_blocks, lanes)

    def test_windows_follow_lanes_that_were_set(self) -> None:
        order = resolve(num_samples=10**6, global_batch_size=48, seed=1, lanes=24)
        assert (order.lanes, order.window_blocks) == (24, 2)
        order = resolve(num_samples=10**6, global_batch_size=200, seed=1, lanes=100)
        assert (order.lanes, order.window_blocks) == (100, 1)

    def test_what_was_set_is_kept(self) -> None:
        order = resolve(num_samples=10**6, global_batch_size=48, seed=1, block_samples=10, window_blocks=5, lanes=3)
        assert order == block_order(1, 10, 5, 3)

    @pytest.mark.parametrize("shuffle", ["none", "global"])
    def test_other_shuffles_run_in_one_lane(self, shuffle: Shuffle) -> None:
        order = resolve(num_samples=10**6, global_batch_size=64, seed=1, shuffle=shuffle)
        assert order.lanes == 1

    @pytest.mark.parametrize("lanes", [None, 1])
    def test_a_global_batch_mixes_at_least_64_order_blocks_and_at_most_twice_as_many(self, lanes: int | None) -> None:
        order = resolve(num_samples=10**6, global_batch_size=512, seed=1, lanes=lanes)
        for step in (100, 1000):
            samples = place(order, 10**6, 0, walk(10**6, 512, order.lanes, step, np.arange(512)))
            assert 64 <= np.unique(samples // order.block_samples).size <= 128

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"shuffle": "blocks"}, "shuffle: expected one of none, global, block, found 'blocks'"),
            ({"shuffle": False}, "shuffle: expected one of none, global, block, found False"),
            ({"seed": -1}, "seed: expected an int from 0 to 18446744073709551615, found -1"),
            ({"seed": 2**64}, "seed: expected an int from 0"),
            ({"seed": True}, "seed: expected an int, found True of type bool; pass a plain int"),
            ({"block_samples": 0}, "block_samples: expected an int from 1 to .*, found 0"),
            ({"block_samples": 1.5}, "block_samples: expected an int, found 1.5 of type float"),
            ({"window_blocks": 0}, "window_blocks: expected an int from 1"),
            ({"lanes": 7}, "lanes: expected a divisor of global_batch_size 64, found 7; leave lanes out"),
            ({"lanes": 0}, "lanes: expected an int from 1"),
            ({"lanes": 2, "shuffle": "global"}, "lanes: expected 1 with shuffle 'global', found 2; leave lanes out"),
            ({"num_samples": -1}, "num_samples: expected an int from 0"),
            ({"global_batch_size": 0}, "global_batch_size: expected an int from 1"),
        ],
    )
    def test_a_parameter_out_of_range_is_refused(self, parameters: dict[str, object], message: str) -> None:
        sizes: dict[str, Any] = {"num_samples": 10**6, "global_batch_size": 64, "seed": 1}
        with pytest.raises(ConfigError, match=message) as caught:
            resolve(**(sizes | parameters))
        assert isinstance(caught.value, TokenyardError)
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("case", GOLDEN["place"], ids=lambda case: case["name"])
def test_golden_samples_stay_where_they_are(case: dict[str, Any]) -> None:
    order = Order(**case["order"])
    samples = place(order, case["num_samples"], case["epoch"], np.array(case["positions"]))
    assert samples.tolist() == case["samples"]


@pytest.mark.parametrize("case", GOLDEN["batches"], ids=lambda case: case["name"])
def test_golden_batches_stay_what_they_are(case: dict[str, Any]) -> None:
    order, num_samples, size = Order(**case["order"]), case["num_samples"], case["global_batch_size"]
    positions = walk(num_samples, size, order.lanes, case["step"], np.arange(size))
    assert place(order, num_samples, case["epoch"], positions).tolist() == case["samples"]
