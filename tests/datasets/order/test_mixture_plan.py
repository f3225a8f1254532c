"""A plan of a mixture gives what drawing sample by sample would give."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets.order.plans import mixed_runs, mixture, source, step_of, steps_of
from tests.datasets.order.slow_plan import PERIOD, Step, slow_quotas, slow_run, slow_schedule
from tokenyard.datasets.order import place
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import ENDLESS, Segment
from tokenyard.errors import ConfigError


@given(mixed_runs())
@settings(max_examples=100)
def test_a_mixture_of_any_segments_is_what_drawing_one_by_one_gives(segments: list[Segment]) -> None:
    plan = Plan(segments)
    end = segments[-1].first_step + 25
    assert steps_of(plan, 0, end) == slow_run(segments, end)


@given(mixed_runs())
def test_no_token_of_a_source_comes_twice_in_its_epoch_through_any_segments(segments: list[Segment]) -> None:
    plan = Plan(segments)
    counted: Counter[tuple[int | None, int, int]] = Counter()
    for step in range(segments[-1].first_step + 25):
        length = plan.segment(step).seq_len or 1
        for k, epoch, sample, _ in step_of(plan, step):
            counted.update((k, epoch, token) for token in range(sample * length, sample * length + length))
    assert set(counted.values()) == {1}


@given(mixed_runs(changes=2))
@settings(max_examples=40)
def test_a_finished_epoch_of_a_source_leaves_out_less_than_a_sample_for_each_lane(segments: list[Segment]) -> None:
    if len({segment.seq_len for segment in segments}) > 1:
        return
    plan = Plan(segments)
    end = segments[-1].first_step + 60
    given_out: dict[tuple[int | None, int], int] = {}
    for step in range(end):
        for k, epoch, _, _ in step_of(plan, step):
            given_out[k, epoch] = given_out.get((k, epoch), 0) + 1
    left = plan.courses[-1].after(end - segments[-1].first_step)
    most_lanes = max(segment.order.lanes for segment in segments)
    sizes = {s.number: s.num_samples for segment in segments for s in segment.sources}
    for (k, epoch), count in given_out.items():
        assert k is not None
        stream = left.streams[k]
        unfinished = {e: part.size for e, part in stream.parts}
        if epoch in unfinished:
            assert count + unfinished[epoch] == sizes[k]
        else:
            assert sizes[k] - count < most_lanes
            assert epoch < stream.next_epoch


@given(mixed_runs())
@settings(max_examples=30)
def test_find_is_the_inverse_of_draws(segments: list[Segment]) -> None:
    plan = Plan(segments)
    end = segments[-1].first_step + 10
    seq_lens = {segment.seq_len for segment in segments}
    there: dict[tuple[int | None, int, int], list[tuple[int, int]]] = {}
    for step in range(end):
        for slot, (k, epoch, sample, _) in enumerate(step_of(plan, step)):
            there.setdefault((k, epoch, sample), []).append((step, slot))
    for k in {s.number for segment in segments for s in segment.sources}:
        for epoch in range(3):
            for sample in range(4):  # each source has these at any sequence length
                found = [at for at in plan.find(epoch, sample, k) if at[0] < end]
                expected = there.get((k, epoch, sample), [])
                assert (found == expected) if len(seq_lens) == 1 else (set(expected) <= set(found))


def test_a_source_that_is_in_no_segment_is_found_nowhere() -> None:
    assert Plan([mixture(source(0, 20), source(3, 20))]).find(0, 5, 2) == []


def by_hand(segment: Segment, step: int, slot: int) -> tuple[int, int, int]:
    """(source, epoch, position) by the specification's formulas, for a run of one segment."""
    lanes, g = segment.order.lanes, segment.global_batch_size // segment.order.lanes
    lane, within = divmod(slot, g)
    start = lane * PERIOD // lanes
    draw = start + step * g + within
    period = slow_schedule(slow_quotas(tuple(s.weight for s in segment.sources)))
    k = period[draw % PERIOD]
    before = [draws // PERIOD * period.count(k) + period[: draws % PERIOD].count(k) for draws in (draw, start)]
    n = before[0] - before[1]
    size = segment.sources[k].num_samples // lanes
    return k, n // size, lane * size + n % size


@pytest.mark.parametrize("step", [0, 1, 65_535, 10**6 + 1, 10**12, 10**12 + 12345])
@pytest.mark.parametrize("lanes", [1, 4, 64])
def test_any_step_however_far_is_given_by_formulas_alone(step: int, lanes: int) -> None:
    sources = [source(0, 10**6, 0.5), source(1, 12_345, 0.3), source(2, 10**9 + 7, 0.2)]
    made = mixture(*sources, size=64, lanes=lanes, block_samples=64)
    found = step_of(Plan([made]), step)
    for slot in (0, 1, 31, 62, 63):
        k, epoch, position = by_hand(made, step, slot)
        sample = int(place(made.order, sources[k].num_samples, epoch, np.array([position]), k)[0])
        assert found[slot] == (k, epoch, sample, False)


def test_far_steps_are_found_again() -> None:
    plan = Plan([mixture(source(0, 10**6, 3), source(1, 999, 1), size=64, lanes=16)])
    step = 10**12 + 7
    for slot, (k, epoch, sample, _) in enumerate(step_of(plan, step)):
        assert k is not None
        assert plan.find(epoch, sample, k) == [(step, slot)]


def test_epochs_of_a_source_end_in_mid_lane_and_mid_step() -> None:
    plan = Plan([mixture(source(0, 7), source(1, 50), size=6, lanes=2, shuffle="block")])
    run = [step_of(plan, step) for step in range(8)]
    # A lane has 3 samples of source 0 an epoch, and half of its 3 draws a step are of it.
    lanes = [[[e for k, e, _, _ in step[at : at + 3] if k == 0] for step in run] for at in (0, 3)]
    assert lanes[0] == lanes[1] == [[0, 0], [0], [1, 1], [1], [2, 2], [2], [3, 3], [3]]
    five = Plan([mixture(source(0, 7), source(1, 50), size=10, lanes=2, shuffle="block")])
    epochs = [[e for k, e, _, _ in step_of(five, step)[:5] if k == 0] for step in range(4)]
    assert epochs == [[0, 0, 0], [1, 1], [1, 2, 2], [2, 3]]


def test_each_lane_reads_its_own_stretch_of_every_source() -> None:
    plan = Plan([mixture(source(0, 40), source(1, 60, 2), size=4, lanes=4, shuffle="block", block_samples=10,
                         window_blocks=1)])  # fmt: skip
    run = [step_of(plan, step) for step in range(25)]
    for lane in range(4):
        blocks = {(k, sample // 10) for step in run for k, epoch, sample, _ in step[lane : lane + 1] if epoch == 0}
        # 10 of 40 are one order block of source 0, 15 of 60 at most two of source 1.
        assert len(blocks) <= 3


def test_shares_hold_in_the_long_run() -> None:
    plan = Plan([mixture(source(0, 100, 0.5), source(1, 100, 0.3), source(2, 100, 0.2), size=10, lanes=1)])
    drawn = Counter(k for step in range(1000) for k, _, _, _ in step_of(plan, step))
    assert all(abs(drawn[k] - share * 10_000) <= 1 for k, share in enumerate((0.5, 0.3, 0.2)))


@given(mixed_runs(changes=0), st.integers(0, 40))
@settings(max_examples=30)
def test_how_much_each_source_gave_is_known_without_going_through_it(segments: list[Segment], steps: int) -> None:
    plan = Plan(segments)
    drawn = Counter(k for step in range(steps) for k, _, _, _ in step_of(plan, step))
    course = plan.courses[0]
    assert course.num_draws(steps) == {s.number: drawn[s.number] for s in segments[0].sources}
    gone = course.num_epochs(steps)
    for s in segments[0].sources:
        if s.num_samples % segments[0].order.lanes == 0:
            assert gone[s.number] == pytest.approx(drawn[s.number] / s.num_samples)


class TestEnd:
    @pytest.mark.parametrize("at_end", ["stop", "raise"])
    @pytest.mark.parametrize("lanes", [1, 2, 3])
    @pytest.mark.parametrize("max_epochs", [1, 2, 5])
    def test_the_run_ends_before_the_first_step_that_needs_more(self, at_end: str, lanes: int, max_epochs: int) -> None:
        made = [source(0, 11, 1, at_end=at_end, max_epochs=max_epochs), source(1, 500, 2)]
        options = {"size": 6, "lanes": lanes, "shuffle": "block"}
        plan = Plan([mixture(*made, **options)])
        endless = Plan([mixture(source(0, 11, 1), source(1, 500, 2), **options)])
        needs_more = next(
            step
            for step in range(200)
            if any(k == 0 and epoch >= max_epochs for k, epoch, _, _ in step_of(endless, step))
        )
        assert plan.end == needs_more
        assert plan.ended_by == made[0]
        assert steps_of(plan, 0, needs_more) == steps_of(endless, 0, needs_more)
        with pytest.raises(
            ConfigError,
            match=rf"step {needs_more}: source 0 \(corpus 0\) has given all samples of its max_epochs, {max_epochs}, "
            rf"by step {needs_more}, which ends the run, as its at_end is {at_end}; raise max_epochs, lower its "
            "weight, or set at_end to repeat",
        ):
            step_of(plan, needs_more)
        plan.check_not_ended(needs_more - 1)

    def test_the_first_source_to_run_out_ends_the_run(self) -> None:
        plan = Plan([mixture(source(0, 90, at_end="stop"), source(1, 30, at_end="raise", name="b"), size=4)])
        assert plan.end == 15
        with pytest.raises(
            ConfigError, match="step 20: source 'b' has given all samples of its max_epochs, 1, by step"
        ):
            plan.check_not_ended(20)

    def test_the_last_epoch_ends_where_the_run_does_and_later_ones_have_no_step(self) -> None:
        plan = Plan([mixture(source(0, 60, at_end="stop"), size=4, epoch_samples=24)])
        assert plan.end == 15
        assert [plan.epoch_range(epoch) for epoch in range(4)] == [(0, 6), (6, 12), (12, 15), (15, 15)]

    def test_nothing_drawn_after_the_end_is_found(self) -> None:
        plan = Plan([mixture(source(0, 8, at_end="stop"), source(1, 8), size=2, shuffle="none")])
        assert plan.end == 8
        assert [len(plan.find(epoch, 3, 1)) for epoch in range(3)] == [1, 0, 0]

    def test_a_source_that_was_taken_out_ends_nothing(self) -> None:
        before = mixture(source(0, 8, at_end="stop"), source(1, 8), size=2)
        assert Plan([before]).end == 8
        assert Plan([before, mixture(source(1, 8), size=2, first_step=8)]).end is None
        assert Plan([before, mixture(source(1, 8), size=2, first_step=9)]).end == 8

    def test_what_a_source_gave_before_a_change_counts(self) -> None:
        sources = [source(0, 20, at_end="stop", max_epochs=2), source(1, 100)]
        plan = Plan([mixture(*sources, size=4), mixture(*sources, size=8, first_step=9)])
        # 18 of 40 in 9 steps of 4, then 4 of each 8.
        assert plan.end == 9 + 5

    def test_a_run_whose_source_was_used_up_at_a_change_ends_there(self) -> None:
        sources = [source(0, 16, at_end="stop"), source(1, 100)]
        plan = Plan([mixture(*sources, size=4), mixture(*sources, size=8, first_step=8)])
        assert plan.end == 8

    @pytest.mark.parametrize("max_epochs", [10**9, 2**61])
    def test_a_limit_too_far_to_be_met_is_none(self, max_epochs: int) -> None:
        # One draw in 65,536 is of the first.
        sources = [source(0, 10**7, 1 / PERIOD, at_end="stop", max_epochs=max_epochs), source(1, 10**7, 1)]
        plan = Plan([mixture(*sources, size=64)])
        assert plan.end is None or plan.end > 10**15
        assert len(step_of(plan, 10**9)) == 64


def test_a_mixture_without_epoch_samples_has_one_epoch_without_end() -> None:
    plan = Plan([mixture(source(0, 20), source(1, 30), size=4)])
    assert plan.epoch_of(10**12) == 0
    assert plan.epoch_range(0)[1] == ENDLESS
    plan.check_not_ended((1 << 60) - 1)
    with pytest.raises(
        ConfigError, match=r"^epoch: that of this mixture has no end, .* set order\.epoch_samples, or go on"
    ):
        step_of(plan, ENDLESS)


def test_steps_are_right_up_to_the_last_that_can_be_counted_and_refused_past_it() -> None:
    size, lanes = 6400, 64
    sources = [source(0, 10**9 + 7, 3, max_epochs=2**61), source(1, 10**6, 1), source(2, 10**12, 0.001)]
    for plan in (
        Plan([mixture(*sources, size=size, lanes=lanes)]),
        Plan([mixture(*sources, size=64, lanes=lanes), mixture(*sources, size=size, lanes=lanes, first_step=11)]),
    ):
        limit = -(-(1 << 62) // size)
        slots = np.array([0, 1, 99, 100, 6399])
        for step in (limit - 1, limit - 2, 10**14):
            draws = plan.draws(step, 1, slots)
            assert draws.sources is not None
            for slot, number, epoch, sample in zip(
                slots.tolist(), draws.sources[0].tolist(), draws.epochs[0].tolist(), draws.sample_ids[0].tolist(),
                strict=True,
            ):  # fmt: skip
                assert 0 <= sample < sources[number].num_samples
                assert plan.find(epoch, sample, number) == [(step, slot)]
        for step in (limit, 10**15, 10**17, 10**18):
            with pytest.raises(ConfigError, match=f"step: expected less than {limit}, up to which .* found {step}; as"):
                step_of(plan, step)
    with pytest.raises(ConfigError, match=f"step: expected less than {limit}, up to which .* found {10**15}; ask for"):
        Plan([mixture(*sources, size=size, lanes=lanes), mixture(*sources, size=64, lanes=lanes, first_step=10**15)])


def test_an_epoch_of_a_mixture_is_so_many_samples_whatever_its_sources_do() -> None:
    plan = Plan([mixture(source(0, 20), source(1, 30), size=4, epoch_samples=30)])
    assert [plan.epoch_range(epoch) for epoch in range(3)] == [(0, 7), (7, 14), (14, 21)]
    run: list[Step] = [step_of(plan, step) for step in range(21)]
    assert run == [step_of(Plan([mixture(source(0, 20), source(1, 30), size=4)]), step) for step in range(21)]


def test_a_new_source_in_a_later_segment_leaves_what_the_others_had_taken() -> None:
    sources = [source(0, 40), source(1, 40), source(2, 40)]
    segments = [
        mixture(*sources[:2], size=4),
        mixture(*sources, size=6, first_step=5),
        mixture(sources[0], sources[2], size=4, first_step=8),
        mixture(*sources, size=6, first_step=12),
    ]
    plan = Plan(segments)
    taken = [slot[:3] for step in range(18) for slot in step_of(plan, step)]
    assert len(set(taken)) == len(taken)
    assert {k for k, _, _ in taken[32:48]} != {0, 1}
    # Source 1 goes on in its epoch 0 when it comes back: 10, then 6, then 12 of its 40.
    assert {epoch for k, epoch, _ in taken if k == 1} == {0}
    assert sum(k == 1 for k, _, _ in taken) == 28


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last_batch": "pad"}, "last_batch: expected drop, as a mixture goes on from epoch to epoch .* found 'pad'"),
        ({"epoch_samples": 0}, "epoch_samples: expected an int from 1"),
        ({"epoch_samples": 7}, "7 samples in an epoch, which fill no .* raise order.epoch_samples to 8 or more, or"),
        ({"lanes": 8}, r"source 1 \(corpus 1\): it has 5 samples, fewer than the 8 lanes; set order.lanes to 1, or"),
    ],
)
def test_a_mixture_that_can_not_be_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mixture(source(0, 20), source(1, 5), **options)


def test_weights_are_checked_with_the_segment() -> None:
    with pytest.raises(ConfigError, match=r"weight of source 1 \(corpus 1\): expected a finite number above 0, f"):
        mixture(source(0, 20), source(1, 20, 0))
    with pytest.raises(ConfigError, match=r"weight of source 'b': 1e-06 is 1e-06 of all weights, and less than"):
        mixture(source(0, 20), source(1, 20, 1e-6, name="b"))


def test_a_mixture_whose_sequence_length_changes_is_told_of_units_alone_as_no_step_begins_all_epochs() -> None:
    before = mixture(source(0, 20), source(1, 20), seq_len=4)
    with pytest.raises(ConfigError, match=r"set order.unit_tokens .* such as 8, from the start of the run$"):
        Plan([before, mixture(source(0, 10), source(1, 10), seq_len=8, first_step=1)])
