import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.datasets.batches import FixedBatches
from tokenyard.datasets.order import key, perm, resolve
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment, Source
from tokenyard.datasets.rank_context import RankContext
from tokenyard.datasets.sampler import RankSampler
from tokenyard.errors import ConfigError

GOLDEN_ROWS = [[4, 75, 51, 39, 94, 82, 34, 22, 10, 53, 88, 76], [98, 74, 62, 50, 81, 26, 69, 57, 33, 21, 9, 92]]
GOLDEN_MIXTURE = [
    [1024, 48, 36, 24, 1007, 1071, 31, 19, 7, 2, 49, 37],
    [45, 21, 28, 28, 4, 46, 22, 41, 29, 17, 5, 1052],
]


def lengths_of(ids):
    """Made-up lengths from 0 to 99."""
    return ids * 7919 % 104729 % 100


def segment(num_samples=103, *, steps=4, global_batch_size=12, first_step=0, last_batch="drop", seed=42, **order):
    order = {"block_samples": 8, **order}
    return Segment(
        first_step=first_step,
        order=resolve(num_samples=num_samples, global_batch_size=global_batch_size, seed=seed, **order),
        global_batch_size=global_batch_size,
        last_batch=last_batch,
        sources=(Source(id="a", num_samples=num_samples),),
        group_steps=steps,
    )


def mixture(steps=4, weights=(3, 1), at_end="repeat", lanes=None, epoch_samples=130):
    sources = tuple(
        Source(id=f"s{k}", num_samples=50 + 31 * k, number=k, weight=weight, at_end=at_end, max_epochs=2)
        for k, weight in enumerate(weights)
    )
    order = resolve(num_samples=50, global_batch_size=12, seed=42, block_samples=8, is_mixture=True, lanes=lanes)
    return Segment(
        order=order,
        global_batch_size=12,
        sources=sources,
        is_mixture=True,
        epoch_samples=epoch_samples,
        group_steps=steps,
    )


def sampler(*segments, rank=0, world_size=1, micro=None):
    mine = RankContext(
        rank=rank,
        world_size=world_size,
        first_id=lambda source, seq_len: 1000 * int(source.removeprefix("s") if source != "a" else 0),
        row_lengths=lengths_of,
    )
    return RankSampler(FixedBatches(Plan(segments), mine, micro_batch_size=micro))


def epoch(of, number):
    of.set_epoch(number)
    return [request.micro_batch for request in of.requests(of.begin())]


def ids(of, number):
    return [batch.sample_ids.tolist() for batch in epoch(of, number)]


def padding(batches):
    return sum(int((lengths_of(b).max() - lengths_of(b)).sum()) for b in map(np.array, batches))


def plainly_grouped(num_samples, number, steps, **options):
    """The definition, followed literally on the batches of a run without grouping."""
    plain = epoch(sampler(segment(num_samples, steps=1, **options)), number)
    whole = [batch.sample_ids.tolist() for batch in plain if not batch.is_padding.any()]
    first = number * len(plain)
    expected = []
    for at in range(0, len(whole), steps):
        group = whole[at : at + steps]
        drawn = [(lengths_of(sample), s, slot, sample) for s, b in enumerate(group) for slot, sample in enumerate(b)]
        rising = [sample for _, _, _, sample in sorted(drawn)]
        size = len(group[0])
        order = perm(len(group), key(42, number, 4, first + at), np.arange(len(group)))
        expected += [rising[j * size : j * size + size] for j in order.tolist()]
    return expected + [batch.sample_ids.tolist() for batch in plain if batch.is_padding.any()]


@given(
    num_samples=st.integers(24, 300),
    steps=st.integers(2, 9),
    last_batch=st.sampled_from(["drop", "pad"]),
    shuffle=st.sampled_from(["none", "global", "block"]),
    number=st.integers(0, 3),
)
def test_groups_are_the_samples_of_their_steps_sorted_cut_and_shuffled(num_samples, steps, last_batch, shuffle, number):
    options = {"last_batch": last_batch, "shuffle": shuffle}
    found = ids(sampler(segment(num_samples, steps=steps, **options)), number)
    assert found == plainly_grouped(num_samples, number, steps, **options)


@given(num_samples=st.integers(24, 300), steps=st.integers(2, 9), number=st.integers(0, 3))
def test_an_epoch_has_the_samples_and_steps_of_one_without_grouping_and_no_more_padding(num_samples, steps, number):
    plain = ids(sampler(segment(num_samples, steps=1)), number)
    grouped = ids(sampler(segment(num_samples, steps=steps)), number)
    assert len(plain) == len(grouped)
    assert sorted(chain(*plain)) == sorted(chain(*grouped))
    assert padding(grouped) <= padding(plain)


def test_grouping_saves_most_of_the_padding():
    plain = ids(sampler(segment(2000, steps=1, block_samples=64)), 0)
    grouped = ids(sampler(segment(2000, steps=32, block_samples=64)), 0)
    assert padding(grouped) < 0.15 * padding(plain)


@pytest.mark.parametrize("make", [segment, mixture])
def test_the_global_batch_is_the_same_at_any_world_size_and_micro_batch(make):
    whole = ids(sampler(make()), 1)
    for world_size, micro in ((1, 3), (2, None), (3, 2), (4, 1)):
        ranks = [sampler(make(), rank=r, world_size=world_size, micro=micro) for r in range(world_size)]
        assert len({len(rank) for rank in ranks}) == 1
        per_step = ranks[0].batches.num_micro_batches(0, 1)
        parts = [ids(rank, 1) for rank in ranks]
        steps = range(0, len(parts[0]), per_step)
        assert [list(chain(*(m for part in parts for m in part[s : s + per_step]))) for s in steps] == whole


@pytest.mark.parametrize("make", [segment, mixture])
def test_a_run_goes_on_at_any_step_at_another_world_size(make):
    run = sampler(make(last_batch="pad") if make is segment else make())
    whole = ids(run, 0) + ids(run, 1)
    for step in range(len(whole)):
        state = json.loads(json.dumps(sampler(make(last_batch="pad") if make is segment else make()).state_dict(step)))
        parts = []
        for rank in range(2):
            resumed = sampler(make(last_batch="pad") if make is segment else make(), rank=rank, world_size=2, micro=6)
            resumed.load_state_dict(state)
            parts.append(list(resumed) + (list(resumed) if resumed.step < len(whole) else []))
        joined = [list(chain(*batch)) for batch in zip(*parts, strict=True)]
        assert joined == whole[step:][: len(joined)]
        assert len(joined) == len(whole) - step


def test_steps_are_the_same_however_many_are_asked_for_at_once():
    batches = sampler(segment(300)).batches
    one_by_one = [batches.of_steps(step, 1)[0][0].sample_ids.tolist() for step in range(50)]
    for at_most in (2, 3, 7):
        found = []
        while len(found) < 50:
            found += [step[0].sample_ids.tolist() for step in batches.of_steps(len(found), at_most)]
        assert found[:50] == one_by_one


def test_the_lengths_of_batches_do_not_rise_within_a_group():
    lengths = [lengths_of(np.array(batch)).mean() for batch in ids(sampler(segment(2000, steps=32)), 0)]
    for at in range(0, len(lengths) - 32, 32):
        group = lengths[at : at + 32]
        assert group not in (sorted(group), sorted(group, reverse=True))


def test_a_change_falls_between_groups():
    def batch_ramp(step):
        before = segment(300, window_blocks=8)
        return Plan([before, segment(300, window_blocks=8, first_step=step, global_batch_size=24)])

    ramp = batch_ramp(8)
    found = list(chain(*ids(sampler(*ramp.segments), 0)))
    assert len(found) == len(set(found)) == 8 * 12 + 8 * 24
    assert [ramp.group(step) for step in (7, 9, 17)] == [(4, 4), (8, 4), (16, 4)]
    with pytest.raises(
        ConfigError,
        match=r"segment from step 6: length_grouping shares out the samples of steps 4 to 7.*it can: 4 and 8$",
    ):
        batch_ramp(6)
    with pytest.raises(ConfigError, match=r"steps 0 to 3 among these steps, .* the nearest at which it can: 4$"):
        batch_ramp(1)
    with pytest.raises(ConfigError, match=r"steps 25 to 28 among .* it can: 25 and 29$"):
        batch_ramp(27)
    assert batch_ramp(25).group(24) == (24, 1)  # what is left of an epoch


def test_grouping_begins_in_mid_epoch_by_a_new_segment():
    run = sampler(segment(300, steps=1))
    state = run.state_dict(step=5)
    resumed = sampler(segment(300, steps=4))
    with pytest.raises(ConfigError, match=r"length_grouping.steps was 1 and is 4"):
        resumed.load_state_dict(state)
    resumed.load_state_dict(state, new_segment=True)
    rest = list(resumed)
    given = ids(run, 0)[:5]
    assert len(rest) == 20
    assert sorted(chain(*given, *rest)) == list(range(300))
    middle = resumed.state_dict(step=7)
    with pytest.raises(ConfigError, match=r"steps 5 to 8 among these steps.* it can: 9$"):
        sampler(segment(300, steps=1)).load_state_dict(middle, new_segment=True)


def test_a_mixture_that_ends_in_a_group_cuts_it_short():
    run = sampler(mixture(at_end="stop", epoch_samples=None))
    plain = sampler(mixture(steps=1, at_end="stop", epoch_samples=None))
    assert run.batches.plan.end % 4
    found, expected = list(run), list(plain)
    assert len(found) == len(expected) == run.batches.plan.end
    assert sorted(chain(*found)) == sorted(chain(*expected))


def test_another_end_of_a_grouped_mixture_needs_a_new_segment_only_in_a_group_that_the_end_cuts_short():
    ended, endless = (sampler(mixture(at_end=at_end, epoch_samples=None)) for at_end in ("stop", "repeat"))
    end = ended.batches.plan.end
    first, count = ended.batches.plan.group(end - 1)
    assert count < 4
    plain = list(ended)
    for step in (0, 3, first):
        endless.load_state_dict(ended.state_dict(step=step))
        assert endless.batches.plan.end is None
        assert len(endless.batches.plan.segments) == 1
        assert next(iter(endless)) == plain[step] or step == first
    state = ended.state_dict(step=end)
    with pytest.raises(ConfigError, match=r"at_end was \[\('stop', 2\), \('stop', 2\)\] and is \[\('repeat', 2\)"):
        endless.load_state_dict(state)
    endless.load_state_dict(state, new_segment=True)
    assert [segment.first_step for segment in endless.batches.plan.segments] == [0, end]
    assert len(next(iter(endless))) == 12


@pytest.mark.parametrize("at_end", ["stop", "raise"])
def test_a_step_past_the_end_of_a_grouped_mixture_is_refused_with_the_source_that_ends_it(at_end):
    batches = sampler(mixture(at_end=at_end)).batches
    end = batches.plan.end
    assert len(batches.of_steps(end - 1, 1)) == 1
    for step in (end, end + 1, end + 100):
        with pytest.raises(ConfigError, match=f"step {step}: source 0 .* has given all samples of its max_epochs, 2"):
            batches.of_steps(step, 1)


def test_the_order_of_groups_is_kept_for_ever():
    assert ids(sampler(segment(103)), 1)[:2] == GOLDEN_ROWS
    assert ids(sampler(mixture()), 1)[:2] == GOLDEN_MIXTURE
