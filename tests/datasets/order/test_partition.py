"""Ranks share every global batch: disjoint, complete, equally, at the same number of steps."""

from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.datasets.order.plans import segment
from tokenyard.datasets.order import place, walk
from tokenyard.datasets.order.partition import Partition, num_steps
from tokenyard.datasets.order.plan import Plan
from tokenyard.errors import ConfigError


def ranks_of(world_size: int, global_batch_size: int, micro_batch_size: int = 1) -> list[Partition]:
    return [
        Partition(
            rank=rank,
            world_size=world_size,
            global_batch_size=global_batch_size,
            micro_batch_size=micro_batch_size,
        )
        for rank in range(world_size)
    ]


def drawn(plan: Plan, step: int, rank: Partition) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The samples that a rank takes at a step, and which of them are padding."""
    draws = plan.draws(step, 1, rank.slots)
    is_padding = np.zeros(rank.slots.shape, np.bool_) if draws.is_padding is None else draws.is_padding[0]
    return draws.sample_ids[0], is_padding


sizes = st.tuples(st.integers(1, 24), st.integers(1, 6), st.integers(1, 4))


class TestPartition:
    @given(sizes)
    def test_slots_of_all_ranks_are_the_global_batch(self, sizes: tuple[int, int, int]) -> None:
        world_size, num_micro_batches, micro_batch_size = sizes
        global_batch_size = world_size * num_micro_batches * micro_batch_size
        ranks = ranks_of(world_size, global_batch_size, micro_batch_size)
        assert {rank.slots.shape for rank in ranks} == {(num_micro_batches, micro_batch_size)}
        assert np.concatenate([rank.slots.ravel() for rank in ranks]).tolist() == list(range(global_batch_size))

    def test_sizes_of_a_rank_follow_from_those_of_the_run(self) -> None:
        partition = Partition(rank=1, world_size=4, global_batch_size=48, micro_batch_size=3)
        assert (partition.rank_batch_size, partition.num_micro_batches) == (12, 4)
        assert partition.slots.tolist() == [[12, 13, 14], [15, 16, 17], [18, 19, 20], [21, 22, 23]]
        assert partition.slots.dtype == np.int64

    @pytest.mark.parametrize(
        ("rank", "world_size", "global_batch_size", "micro_batch_size", "message"),
        [
            (
                0,
                8,
                100,
                1,
                "global_batch_size: expected a multiple of world_size 8, found 100; the nearest: 96 and 104",
            ),
            (0, 8, 5, 1, "global_batch_size: expected a multiple of world_size 8, found 5; the nearest: 8$"),
            (
                0,
                4,
                48,
                5,
                r"micro_batch_size: expected a divisor of the 12 samples of a rank \(global_batch_size 48 / "
                r"world_size 4\), found 5; the nearest: 4 and 6",
            ),
            (0, 4, 48, 24, "found 24; the nearest: 12$"),
            (4, 4, 48, 3, "rank: expected an int from 0 to 3, found 4"),
            (-1, 4, 48, 3, "rank: expected an int from 0 to 3, found -1"),
            (0, 0, 48, 3, "world_size: expected an int from 1 to .*, found 0"),
            (0, 4, 0, 3, "global_batch_size: expected an int from 1 to .*, found 0"),
            (0, 4, 48, 0, "micro_batch_size: expected an int from 1 to .*, found 0"),
            (0, 4, 48.0, 3, "global_batch_size: expected an int, found 48.0 of type float; pass a plain int"),
        ],
    )
    def test_sizes_that_do_not_divide_are_refused_with_sizes_that_do(
        self, rank: int, world_size: int, global_batch_size: int, micro_batch_size: int, message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            Partition(
                rank=rank,
                world_size=world_size,
                global_batch_size=global_batch_size,
                micro_batch_size=micro_batch_size,
            )


class TestNumSteps:
    @pytest.mark.parametrize(
        ("num_samples", "drop", "pad"), [(0, 0, 0), (1, 0, 1), (7, 0, 1), (8, 1, 1), (9, 1, 2), (80, 10, 10)]
    )
    def test_the_tail_is_dropped_or_is_a_step(self, num_samples: int, drop: int, pad: int) -> None:
        assert num_steps(num_samples, 8, "drop") == drop
        assert num_steps(num_samples, 8, "pad") == pad

    def test_another_last_batch_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="last_batch: expected one of drop, pad, found 'keep'"):
            num_steps(10, 8, "keep")


class TestStepsOfRanks:
    """What a plan gives to the slots of each rank."""

    @given(sizes, st.integers(1, 300), st.integers(1, 8))
    @settings(deadline=None)
    def test_padded_epochs_count_every_sample_once(
        self, sizes: tuple[int, int, int], num_samples: int, lanes: int
    ) -> None:
        world_size, num_micro_batches, micro_batch_size = sizes
        size = world_size * num_micro_batches * micro_batch_size
        plan = Plan([segment(num_samples, size=size, lanes=gcd(size, lanes), last_batch="pad")])
        counted: list[int] = []
        for step in range(num_steps(num_samples, size, "pad")):
            real: set[int] = set()
            taken: set[int] = set()
            for rank in ranks_of(world_size, size, micro_batch_size):
                samples, is_padding = drawn(plan, step, rank)
                assert samples.shape == is_padding.shape == (num_micro_batches, micro_batch_size)
                counted += samples[~is_padding].tolist()
                real.update(samples[~is_padding].tolist())
                taken.update(samples.ravel().tolist())
            assert taken == real
        assert sorted(counted) == list(range(num_samples))

    @pytest.mark.parametrize("last_batch", ["drop", "pad"])
    @pytest.mark.parametrize("step", [0, 3, 12])
    def test_the_global_batch_is_the_same_at_any_world_size(self, last_batch: str, step: int) -> None:
        num_samples = 13 * 48 if last_batch == "drop" else 12 * 48 + 5
        plan = Plan([segment(num_samples, size=48, lanes=16, last_batch=last_batch)])
        batches = set()
        for world_size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 48):
            parts = [drawn(plan, step, rank) for rank in ranks_of(world_size, 48)]
            batches.add(tuple(tuple(np.concatenate(part, axis=None).tolist()) for part in zip(*parts, strict=True)))
        assert len(batches) == 1

    def test_whole_steps_are_those_of_the_walk_without_padding(self) -> None:
        partition = Partition(rank=1, world_size=2, global_batch_size=8, micro_batch_size=2)
        samples, is_padding = drawn(Plan([segment(100, shuffle="block", lanes=4)]), 5, partition)
        order = segment(100, lanes=4).order
        assert samples.ravel().tolist() == place(order, 100, 0, walk(100, 8, 4, 5, np.arange(4, 8))).tolist()
        assert not is_padding.any()

    def test_padding_goes_round_the_tail(self) -> None:
        partition = Partition(rank=0, world_size=1, global_batch_size=8, micro_batch_size=4)
        samples, is_padding = drawn(Plan([segment(19, shuffle="none", last_batch="pad")]), 2, partition)
        assert samples.tolist() == [[16, 17, 18, 16], [17, 18, 16, 17]]
        assert is_padding.tolist() == [[False, False, False, True], [True, True, True, True]]

    def test_fewer_samples_than_a_global_batch_are_one_padded_step(self) -> None:
        plan = Plan([segment(3, shuffle="none", last_batch="pad")])
        parts = [drawn(plan, 0, rank) for rank in ranks_of(4, 8, 2)]
        assert [samples.ravel().tolist() for samples, _ in parts] == [[0, 1], [2, 0], [1, 2], [0, 1]]
        assert [int((~is_padding).sum()) for _, is_padding in parts] == [2, 1, 0, 0]
