from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from tests.corpora import write_corpus
from tests.datasets.order.plans import mixture, segment, source
from tokenyard.datasets.batches import FixedBatches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order import place, resolve, walk
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment, Source
from tokenyard.datasets.rank_context import RankContext
from tokenyard.datasets.sampler import RankSampler
from tokenyard.errors import ConfigError


def make(num_samples=103, *, rank=0, world_size=1, global_batch_size=12, micro=None, last_batch="drop", **order):
    order = {"seed": 42, "block_samples": 8, **order}
    segment = Segment(
        order=resolve(num_samples=num_samples, global_batch_size=global_batch_size, **order),
        global_batch_size=global_batch_size,
        last_batch=last_batch,
        sources=(Source(id="a", num_samples=num_samples),),
    )
    mine = RankContext(rank=rank, world_size=world_size, first_id=lambda source, seq_len: 0)
    return RankSampler(FixedBatches(Plan([segment]), mine, micro_batch_size=micro))


def epoch(sampler, number):
    """The micro-batches of an epoch, whatever the sampler is doing."""
    sampler.set_epoch(number)
    return [request.micro_batch for request in sampler.requests(sampler.begin())]


def ids(sampler, number):
    return [batch.sample_ids.tolist() for batch in epoch(sampler, number)]


@given(
    num_samples=st.integers(1, 200),
    world_size=st.sampled_from([1, 2, 3, 4, 6, 12]),
    accumulated=st.sampled_from([1, 2]),
    last_batch=st.sampled_from(["drop", "pad"]),
    shuffle=st.sampled_from(["none", "global", "block"]),
    number=st.integers(0, 3),
)
def test_ranks_share_an_epoch_evenly_and_without_overlap(
    num_samples, world_size, accumulated, last_batch, shuffle, number
):
    if last_batch == "drop":
        num_samples += 24
    micro = 24 // world_size // accumulated
    options = {"global_batch_size": 24, "micro": micro, "last_batch": last_batch, "shuffle": shuffle}
    samplers = [make(num_samples, rank=r, world_size=world_size, **options) for r in range(world_size)]
    assert len({len(s) for s in samplers}) == 1
    counted = []
    for sampler in samplers:
        batches = epoch(sampler, number)
        assert len(batches) == len(sampler)
        for batch in batches:
            assert batch.sample_ids.shape == (micro,)
            counted += batch.sample_ids[~batch.is_padding].tolist()
    expected = num_samples if last_batch == "pad" else num_samples - num_samples % 24
    assert len(counted) == len(set(counted)) == expected


def test_the_global_batch_of_a_step_is_the_same_at_any_world_size():
    order = resolve(num_samples=103, global_batch_size=12, seed=42, block_samples=8)
    expected = [place(order, 103, 2, walk(103, 12, order.lanes, s, np.arange(12))).tolist() for s in range(8)]
    for world_size in (1, 2, 3, 4):
        ranks = [ids(make(rank=r, world_size=world_size), 2) for r in range(world_size)]
        assert [list(chain(*parts)) for parts in zip(*ranks, strict=True)] == expected


def test_micro_batches_cut_the_slots_of_a_rank_in_order():
    whole, cut = ids(make(world_size=2, rank=1), 0), ids(make(world_size=2, rank=1, micro=2), 0)
    assert [list(chain(*cut[i : i + 3])) for i in range(0, len(cut), 3)] == whole


def test_each_iteration_takes_the_next_epoch_also_after_a_break():
    epochs = [ids(make(), number) for number in range(4)]
    sampler = make()
    assert list(sampler) == epochs[0]
    next(iter(sampler))
    assert list(sampler) == epochs[2]
    sampler.set_epoch(1)
    assert list(sampler) == epochs[1]
    assert list(sampler) == epochs[2]
    assert epochs[0] != epochs[1]


def test_the_seed_changes_the_order():
    assert list(make(seed=1)) != list(make(seed=2))


@pytest.mark.parametrize("epoch", [-1, 1.0, True, None])
def test_an_epoch_that_is_none_is_refused(epoch):
    with pytest.raises(ConfigError, match=f"epoch: expected a whole number from 0 on, found {epoch}"):
        make().set_epoch(epoch)


def test_an_epoch_without_a_step_is_refused_with_the_way_out():
    with pytest.raises(
        ConfigError,
        match=r"11 samples in an epoch, which fill no global batch of 12.*to 11 or less, or choose last_batch pad",
    ):
        make(11)
    with pytest.raises(ConfigError, match=r"there are 0 samples in.*; name a larger corpus$"):
        make(0, last_batch="pad")
    assert len(make(11, last_batch="pad")) == 1


def test_a_plain_dataloader_takes_it_as_a_batch_sampler(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", [list(range(100))]), 4)
    sampler = make(len(dataset), global_batch_size=6)
    found = [batch["sample_ids"].tolist() for batch in DataLoader(dataset, batch_sampler=sampler)]
    sampler.set_epoch(0)
    assert found == list(sampler)


def make_mixture(**options):
    segment = mixture(source(0, 40), source(1, 60), size=4, **options)
    mine = RankContext(rank=0, world_size=1, first_id=lambda id, seq_len: 100 * (id[-1] == "1"))
    return RankSampler(FixedBatches(Plan([segment]), mine, micro_batch_size=None))


def test_no_epoch_follows_one_without_end():
    sampler = make_mixture()
    with pytest.raises(TypeError, match=r"has no end, and so no length; set order\.epoch_samples"):
        len(sampler)
    message = r"^epoch: that of this mixture has no end, .* or go on in the same epoch with"
    with pytest.raises(ConfigError, match=message):
        sampler.set_epoch(1)
    first = next(iter(sampler))
    with pytest.raises(ConfigError, match=message):
        next(iter(sampler))
    sampler.set_epoch(0)
    assert next(iter(sampler)) == first


def test_an_epoch_without_end_goes_on_where_its_state_was_taken():
    sampler, whole = make_mixture(), make_mixture()
    expected = [ids for ids, _ in zip(whole, range(30), strict=False)]
    found = []
    for _ in range(6):
        found += [ids for _, ids in zip(range(5), sampler, strict=False)]
        sampler.load_state_dict(sampler.state_dict())
    assert found == expected


def ramp(*sizes, rank=0, world_size=1, micro=None):
    """Five steps of each global batch but the last, over 200 samples."""
    segments = [segment(200, size=size, first_step=5 * i) for i, size in enumerate(sizes)]
    mine = RankContext(rank=rank, world_size=world_size, first_id=lambda id, seq_len: 0)
    return RankSampler(FixedBatches(Plan(segments), mine, micro_batch_size=micro))


def test_a_run_goes_on_with_ranks_and_micro_batches_that_its_past_would_not_have_fitted():
    first = ramp(4, 16)
    whole = list(first)
    state = first.state_dict(step=7)
    for world_size, micro in ((8, None), (1, 16), (2, 8), (16, 1)):
        ranks = [ramp(16, rank=r, world_size=world_size, micro=micro) for r in range(world_size)]
        for rank in ranks:
            rank.load_state_dict(state)
        rests = [list(rank) for rank in ranks]
        assert sorted(chain(*chain(*rests))) == sorted(chain(*whole[7:]))
        assert {len(rest) for rest in rests} == {(len(whole) - 7) * 16 // world_size // (micro or 16 // world_size)}


def test_a_planned_global_batch_that_ranks_can_not_share_is_told_with_its_step():
    message = r"segment from step 5: global_batch_size: expected a multiple of world_size 4, found 6; the nearest: 4"
    with pytest.raises(ConfigError, match=message):
        ramp(8, 6, world_size=4)
    message = r"segment from step 5: micro_batch_size: expected a divisor of the 4 samples of a rank"
    with pytest.raises(ConfigError, match=message):
        next(iter(ramp(6, 4, 12, micro=6)))
    with pytest.raises(ConfigError, match=r"^global_batch_size: expected a multiple of world_size 4, found 6"):
        ramp(6, world_size=4)


def test_an_iteration_goes_on_as_it_was_and_uncounted_when_a_state_of_another_plan_is_loaded():
    whole, sampler = list(ramp(4)), ramp(4)
    old = iter(sampler)
    begun = [next(old) for _ in range(3)]
    sampler.load_state_dict(ramp(16).state_dict(step=7), new_segment=True)
    assert begun + list(old) == whole
    assert sampler.step == 7
    assert len(list(sampler)) == (200 - 7 * 16) // 4


def test_the_length_of_an_epoch_whose_past_does_not_fit_counts_its_steps():
    sampler = ramp(16, world_size=8, micro=1)
    sampler.load_state_dict(ramp(4, 16).state_dict(step=7))
    assert len(sampler) == 5 + 2 * (200 - 20) // 16


def test_a_past_that_does_not_fit_can_not_be_gone_through_again():
    sampler = ramp(16, world_size=8)
    sampler.load_state_dict(ramp(4, 16).state_dict(step=30))
    sampler.set_epoch(0)
    with pytest.raises(ConfigError, match="global_batch_size: expected a multiple of world_size 8, found 4"):
        next(iter(sampler))


def test_settings_may_still_plan_a_past_that_does_not_fit():
    sampler = ramp(4, 16, world_size=8)
    with pytest.raises(ConfigError, match="global_batch_size: expected a multiple of world_size 8, found 4"):
        next(iter(sampler))
    sampler.load_state_dict(ramp(4, 16).state_dict(step=7))
    assert len(list(sampler)) == 5 + (200 - 20) // 16 - 7


def test_a_future_that_does_not_fit_is_refused_before_the_run_begins():
    with pytest.raises(ConfigError, match="micro_batch_size: expected a divisor of the 6 samples of a rank"):
        ramp(8, 16, 12, world_size=2, micro=4)


@pytest.mark.parametrize("workers", [{"num_workers": 0}, {"num_workers": 2}])
def test_a_plain_dataloader_takes_every_epoch_in_turn(tmp_path, workers):
    dataset = TokenDataset(write_corpus(tmp_path / "c", [list(range(100))]), 4)
    batches = DataLoader(dataset, batch_sampler=make(len(dataset), global_batch_size=6), **workers)
    for number in range(3):
        found = [batch["sample_ids"].tolist() for batch in batches]
        assert found == ids(make(len(dataset), global_batch_size=6), number)
