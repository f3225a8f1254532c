"""A plan gives what going through the run step by step would give; here for one corpus."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets.order.plans import UNIT, mixed_runs, mixture, segment, single_runs, source, step_of, steps_of
from tests.datasets.order.slow_plan import Step, slow_run
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import ENDLESS, Segment, Source
from tokenyard.errors import ConfigError


def samples(step: Step) -> list[int]:
    """Those that are no padding."""
    return [sample for _, _, sample, is_padding in step if not is_padding]


def tokens(segment: Segment, step: Step) -> list[int]:
    """The tokens of a step's samples; of rows, the samples."""
    length = segment.seq_len or 1
    return [token for sample in samples(step) for token in range(sample * length, sample * length + length)]


@given(single_runs())
@settings(max_examples=150)
def test_a_run_of_any_segments_is_what_going_through_it_gives(segments: list[Segment]) -> None:
    plan = Plan(segments)
    end = segments[-1].first_step + 15
    assert steps_of(plan, 0, end) == slow_run(segments, end)


@given(single_runs())
def test_no_token_comes_twice_in_an_epoch_through_any_segments(segments: list[Segment]) -> None:
    plan = Plan(segments)
    counted: Counter[tuple[int, int]] = Counter()
    for step in range(segments[-1].first_step + 15):
        for token in tokens(plan.segment(step), step_of(plan, step)):
            counted[plan.epoch_of(step), token] += 1
    assert set(counted.values()) == {1}


@given(single_runs(last_batch="pad"))
def test_padded_epochs_give_every_sample_once_through_any_changes_of_the_global_batch(segments: list[Segment]) -> None:
    if len({segment.seq_len for segment in segments}) > 1:
        return
    plan = Plan(segments)
    for epoch in range(3):
        given_out = [s for step in range(*plan.epoch_range(epoch)) for s in samples(step_of(plan, step))]
        assert sorted(given_out) == list(range(segments[0].sources[0].num_samples))


@given(single_runs(last_batch="drop"))
def test_an_epoch_leaves_out_less_than_the_last_global_batch_it_meets(segments: list[Segment]) -> None:
    if len({segment.seq_len for segment in segments}) > 1:
        return
    plan = Plan(segments)
    for epoch in range(3):
        first, stop = plan.epoch_range(epoch)
        given_out = [s for step in range(first, stop) for s in samples(step_of(plan, step))]
        left_out = segments[0].sources[0].num_samples - len(given_out)
        # A larger global batch that begins with the epoch's end may be why it ends there.
        sizes = [plan.segment(step).global_batch_size for step in (stop - 1, stop)]
        assert 0 <= left_out < max(sizes)


@given(single_runs())
def test_a_shorter_sequence_length_loses_nothing_and_a_longer_one_less_than_a_sample_at_each_edge(
    segments: list[Segment],
) -> None:
    plan = Plan(segments)
    for before, after, course in zip(segments, segments[1:], plan.courses[1:], strict=False):
        old = Plan([s for s in segments if s.first_step <= before.first_step])
        left = old.courses[-1].after(after.first_step - before.first_step)
        for (_, was), (_, now) in zip(
            (part for s in left.streams.values() for part in s.parts),
            (part for s in course.left.streams.values() for part in s.parts),
            strict=True,
        ):
            lost = was.size * (before.seq_len or 1) - now.size * (after.seq_len or 1)
            shorter = (after.seq_len or 1) <= (before.seq_len or 1)
            assert 0 <= lost <= (0 if shorter else len(was.ranges) * 2 * (UNIT - 1))
            assert len(now.ranges) <= len(was.ranges)


@given(single_runs() | mixed_runs())
def test_epochs_tile_the_steps_of_a_run(segments: list[Segment]) -> None:
    plan = Plan(segments)
    last = segments[-1].first_step + 40
    epoch = step = 0
    while step < last:
        first, stop = plan.epoch_range(epoch)
        assert first == step
        assert stop >= first
        assert {plan.epoch_of(s) for s in range(first, min(stop, last))} <= {epoch}
        epoch, step = epoch + 1, stop


@given(single_runs())
@settings(max_examples=30)
def test_find_is_the_inverse_of_draws(segments: list[Segment]) -> None:
    plan = Plan(segments)
    seq_lens = {segment.seq_len for segment in segments}
    end = segments[-1].first_step + 6
    there: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for step in range(end):
        for slot, (_, epoch, sample, _) in enumerate(step_of(plan, step)):
            there.setdefault((epoch, sample), []).append((step, slot))
    for epoch in range(plan.epoch_of(end - 1) + 1):
        for sample in range(min(s.sources[0].num_samples for s in segments)):
            found = [at for at in plan.find(epoch, sample) if at[0] < end]
            if len(seq_lens) == 1:
                assert found == there.get((epoch, sample), [])
            else:
                assert set(found) <= set(there.get((epoch, sample), []))


def test_a_sample_that_is_dropped_is_found_nowhere() -> None:
    plan = Plan([segment(11, size=4)])
    found = [plan.find(2, sample) for sample in range(11)]
    assert [len(places) for places in found].count(0) == 3
    assert sorted(place for places in found for place in places) == [(s, i) for s in (4, 5) for i in range(4)]


def test_padding_is_found_at_each_time_it_comes() -> None:
    plan = Plan([segment(6, size=5, last_batch="pad", shuffle="none")])
    assert [plan.find(1, sample) for sample in range(6)] == [
        [(2, 0)], [(2, 1)], [(2, 2)], [(2, 3)], [(2, 4)], [(3, slot) for slot in range(5)]
    ]  # fmt: skip


@given(single_runs() | mixed_runs(), st.data())
@settings(max_examples=40)
def test_many_steps_at_once_are_those_steps_in_any_shape_of_slots(segments: list[Segment], data: st.DataObject) -> None:
    plan = Plan(segments)
    step = data.draw(st.integers(0, segments[-1].first_step + 10))
    count = data.draw(st.integers(1, min(20, plan.stretch(step))))
    size = plan.segment(step).global_batch_size
    slots = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=4, max_size=4))).reshape(2, 2)
    draws = plan.draws(step, count, slots)
    assert draws.sample_ids.shape == draws.epochs.shape == (count, 2, 2)
    for i in range(count):
        expected = step_of(plan, step + i)
        assert draws.sample_ids[i].ravel().tolist() == [expected[slot][2] for slot in slots.ravel()]
        assert draws.epochs[i].ravel().tolist() == [expected[slot][1] for slot in slots.ravel()]
        assert plan.segment(step + i) == plan.segment(step)
        assert plan.epoch_of(step + i) == plan.epoch_of(step)


def test_steps_of_a_trillion_are_found_without_history() -> None:
    plan = Plan([segment(10**9 + 7, size=64, lanes=64, block_samples=1024)])
    step = 10**12 + 5
    epoch, within = divmod(step, (10**9 + 7) // 64)
    assert plan.epoch_of(step) == epoch
    assert plan.epoch_range(epoch) == (step - within, step - within + (10**9 + 7) // 64)
    for slot, (_, e, sample, _) in enumerate(step_of(plan, step)):
        assert e == epoch
        assert plan.find(epoch, sample) == [(step, slot)]


def test_steps_of_a_single_corpus_are_right_up_to_the_last_that_can_be_counted_and_refused_past_it() -> None:
    size = 6400
    plan = Plan([segment(10**9 + 7, size=size, lanes=64, block_samples=1024)])
    limit = -(-(1 << 62) // size)
    for slot, (_, epoch, sample, _) in enumerate(step_of(plan, limit - 1)[:3]):
        assert plan.find(epoch, sample) == [(limit - 1, slot)]
    with pytest.raises(ConfigError, match=f"^step: expected less than {limit}, up to which .* found {10**17}; ask for"):
        step_of(plan, 10**17)
    with pytest.raises(ConfigError, match=f"^step: expected less than {limit}, up to which .* found {ENDLESS}; ask"):
        plan.check_not_ended(ENDLESS)


def test_a_change_at_an_epochs_end_takes_whole_epochs_from_there() -> None:
    ramp = Plan([segment(24, size=4), segment(24, size=8, first_step=6), segment(24, size=12, first_step=9)])
    assert [ramp.epoch_range(epoch) for epoch in range(4)] == [(0, 6), (6, 9), (9, 11), (11, 13)]
    assert [ramp.epoch_of(step) for step in (5, 6, 8, 9, 11)] == [0, 1, 1, 2, 3]
    alone = Plan([segment(24, size=8)])
    assert [step_of(ramp, 6 + i) for i in range(3)] == [step_of(alone, 3 + i) for i in range(3)]


def test_what_is_too_little_for_a_larger_global_batch_ends_the_epoch() -> None:
    plan = Plan([segment(10, size=2), segment(10, size=4, first_step=4)])
    assert [plan.epoch_range(epoch) for epoch in range(3)] == [(0, 4), (4, 6), (6, 8)]
    assert plan.epoch_of(4) == 1


def test_an_epoch_that_a_change_leaves_no_step_to_is_still_counted() -> None:
    plan = Plan(
        [segment(4, size=2, last_batch="drop"), segment(4, size=4, first_step=1), segment(4, first_step=2, size=2)]
    )
    assert [plan.epoch_of(step) for step in range(6)] == [0, 1, 2, 2, 3, 3]
    assert [plan.epoch_range(epoch) for epoch in range(4)] == [(0, 1), (1, 2), (2, 4), (4, 6)]


@given(single_runs() | mixed_runs())
@settings(max_examples=30)
def test_a_plan_grows_by_a_segment_and_keeps_what_it_had(segments: list[Segment]) -> None:
    plan = Plan(segments[:1])
    for number, more in enumerate(segments[1:], start=1):
        before, plan = plan, plan.extended(more)
        assert plan.courses[:number] == before.courses
        assert before.segments == tuple(segments[:number])
        whole = Plan(segments[: number + 1])
        assert (plan.segments, plan.end, plan.ended_by) == (whole.segments, whole.end, whole.ended_by)
    end = segments[-1].first_step + 6
    assert steps_of(plan, 0, end) == steps_of(Plan(segments), 0, end)


def test_a_segment_that_comes_before_the_end_of_a_run_takes_it_back() -> None:
    ending = Plan([mixture(source(0, 8, at_end="stop"), source(1, 8), size=2)])
    assert ending.end == 8
    assert ending.extended(mixture(source(1, 8), size=2, first_step=8)).end is None
    late = ending.extended(mixture(source(1, 8), size=2, first_step=9))
    assert (late.end, late.ended_by) == (8, ending.ended_by)
    assert ending.end == 8


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (list, "segments: the first segment of a run begins at step 0"),
        (lambda: [segment(20, first_step=1)], "segments: the first segment of a run begins at step 0"),
        (
            lambda: [segment(20), segment(20, first_step=3), segment(20, first_step=3)],
            "segment from step 3: segments begin at ascending steps, but the one before it begins at 3",
        ),
        (
            lambda: [segment(20), segment(20, first_step=3, seed=1)],
            "segment from step 3: seed was 42 and would become 1, which is another order; keep it",
        ),
        (lambda: [segment(20), segment(20, first_step=3, block_samples=1)], "block_samples was 4 and would become 1"),
        (lambda: [segment(20), segment(20, first_step=3, window_blocks=1)], "window_blocks was 2 and would become 1"),
        (
            lambda: [segment(20), segment(20, first_step=3, shuffle="none")],
            "shuffle was 'block' and would become 'none'",
        ),
        (
            lambda: [segment(20), mixture(source(0, 20), first_step=3)],
            "segment from step 3: a run that reads one corpus can't become a mixture, nor the other way round, since "
            r"samples would come twice; begin with data\.sources, of which there may be one",
        ),
        (
            lambda: [segment(20), segment(Source(id="other", num_samples=20), first_step=3)],
            "segment from step 3: the corpus was corpus 20 and would become other, whose samples may have been seen",
        ),
        (
            lambda: [segment(source(0, 20)), segment(source(0, 30), first_step=3)],
            r"segment from step 3: source 0 \(corpus 0\) had 20 samples and would have 30",
        ),
        (
            lambda: [segment(20, seq_len=4), segment(Source(id="corpus 20", num_samples=10), seq_len=8, first_step=1)],
            "seq_len: it changes from 4 to 8 within epoch 0, at step 1, where samples of one length overlap with those "
            "of the other; set order.unit_tokens to a multiple of both, such as 8, from the start of the run, or "
            "change it at the first step of an epoch",
        ),
        (
            lambda: [segment(20, seq_len=4), segment(20, first_step=1)],
            "seq_len: only windows of mode concat change their length during a run",
        ),
    ],
)
def test_segments_that_do_not_follow_each_other_are_refused(
    segments: Callable[[], list[Segment]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Plan(segments())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: segment(7),
            "there are 7 samples in an epoch, which fill no global batch of 8, .*choose last_batch pad",
        ),
        (lambda: segment(0, last_batch="pad"), "there are 0 samples .*; name a larger corpus"),
        (lambda: segment(20, size=0), "global_batch_size: expected an int from 1"),
        (lambda: segment(20, first_step=-1), "first_step: expected an int from 0"),
        (lambda: segment(20, seq_len=0), "seq_len: expected an int from 1"),
        (lambda: segment(20, last_batch="keep"), "last_batch: expected one of drop, pad, found 'keep'"),
        (lambda: segment(source(0, 9), source(1, 9)), "sources: only a mixture has several sources, or epoch_samples"),
        (lambda: segment(20, epoch_samples=8), "sources: only a mixture has several sources, or epoch_samples"),
        (lambda: mixture(source(1, 9), source(0, 9)), r"ascending number, found the numbers \[1, 0\]"),
        (lambda: mixture(source(1, 9), source(1, 9)), r"ascending number, found the numbers \[1, 1\]"),
        (lambda: segment(source(0, -1)), "num_samples: expected an int from 0"),
        (lambda: segment(source(-1, 9)), "number: expected an int from 0"),
        (lambda: segment(source(0, 9, max_epochs=0)), "max_epochs: expected an int from 1"),
        (lambda: segment(source(0, 9, at_end="halt")), "at_end: expected one of repeat, stop, raise, found 'halt'"),
    ],
)
def test_a_segment_that_can_not_be_is_refused(made: Callable[[], Segment], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made()


def test_lanes_of_a_segment_divide_its_global_batch() -> None:
    one = segment(20, lanes=2)
    with pytest.raises(ConfigError, match="lanes: expected a divisor of global_batch_size 9, found 2; leave lanes out"):
        Segment(order=one.order, global_batch_size=9, sources=one.sources)


def test_a_step_that_is_none_is_refused() -> None:
    plan = Plan([segment(20)])
    with pytest.raises(ConfigError, match=r"step: expected an int from 0 to .*, found -1"):
        plan.epoch_of(-1)
    with pytest.raises(ConfigError, match=r"epoch: expected an int from 0 to .*, found -1"):
        plan.epoch_range(-1)


def test_a_single_corpus_never_ends() -> None:
    plan = Plan([segment(20, size=4)])
    assert plan.end is None
    plan.check_not_ended((1 << 60) - 1)
    assert all(a[1] == b[0] for a, b in pairwise(plan.epoch_range(epoch) for epoch in range(5)))
    assert repr(plan) == "Plan(1 segments, 5 steps an epoch)"
