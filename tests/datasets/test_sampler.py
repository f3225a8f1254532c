import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from tests.corpora import write_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order import place, resolve, walk
from tokenyard.datasets.partition import Partition
from tokenyard.datasets.sampler import RankSampler
from tokenyard.errors import ConfigError


def make(num_samples=103, *, rank=0, world_size=1, global_batch_size=12, micro=None, last_batch="drop", **order):
    partition = Partition(
        rank=rank,
        world_size=world_size,
        global_batch_size=global_batch_size,
        micro_batch_size=micro or global_batch_size // world_size,
    )
    order = {"seed": 42, "block_samples": 8, **order}
    resolved = resolve(num_samples=num_samples, global_batch_size=global_batch_size, **order)
    return RankSampler(num_samples, resolved, partition, last_batch)


@given(
    num_samples=st.integers(1, 200),
    world_size=st.sampled_from([1, 2, 3, 4, 6, 12]),
    accumulated=st.sampled_from([1, 2]),
    last_batch=st.sampled_from(["drop", "pad"]),
    shuffle=st.sampled_from(["none", "global", "block"]),
    epoch=st.integers(0, 3),
)
def test_ranks_share_an_epoch_evenly_and_without_overlap(
    num_samples, world_size, accumulated, last_batch, shuffle, epoch
):
    if last_batch == "drop":
        num_samples += 24
    micro = 24 // world_size // accumulated
    options = {"global_batch_size": 24, "micro": micro, "last_batch": last_batch, "shuffle": shuffle}
    samplers = [make(num_samples, rank=r, world_size=world_size, **options) for r in range(world_size)]
    assert len({len(s) for s in samplers}) == 1
    counted = []
    for sampler in samplers:
        for i in range(len(sampler)):
            batch = sampler.micro_batch(epoch, i)
            assert batch.sample_ids.shape == (micro,)
            counted += batch.sample_ids[~batch.is_padding].tolist()
    expected = num_samples if last_batch == "pad" else num_samples - num_samples % 24
    assert len(counted) == len(set(counted)) == expected


def test_the_global_batch_of_a_step_is_the_same_at_any_world_size():
    for step in range(8):
        batches = []
        for world_size in (1, 2, 3, 4):
            samplers = [make(rank=r, world_size=world_size) for r in range(world_size)]
            batches.append(np.concatenate([s.micro_batch(2, step).sample_ids for s in samplers]).tolist())
        order = samplers[0].order
        slots = place(order, 103, 2, walk(103, 12, order.lanes, step, np.arange(12)))
        assert batches == [slots.tolist()] * 4


def test_micro_batches_cut_the_slots_of_a_rank_in_order():
    whole, cut = make(world_size=2, rank=1), make(world_size=2, rank=1, micro=2)
    assert len(cut) == 3 * len(whole)
    for step in range(len(whole)):
        parts = [cut.micro_batch(0, 3 * step + i).sample_ids for i in range(3)]
        assert np.array_equal(np.concatenate(parts), whole.micro_batch(0, step).sample_ids)


def test_micro_batches_may_be_asked_for_in_any_order():
    sampler = make(micro=4)
    in_order = [sampler.micro_batch(0, i).sample_ids.tolist() for i in range(len(sampler))]
    backwards = [sampler.micro_batch(0, i).sample_ids.tolist() for i in reversed(range(len(sampler)))]
    assert backwards[::-1] == in_order


def test_each_iteration_takes_the_next_epoch_also_after_a_break():
    sampler = make()
    epochs = [[sampler.micro_batch(e, i).sample_ids.tolist() for i in range(len(sampler))] for e in range(4)]
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
    with pytest.raises(ConfigError, match=r"11 samples, which fill no global batch of 12.*or choose last_batch pad"):
        make(11)
    with pytest.raises(ConfigError, match=r"there are 0 samples.*lower global_batch_size or seq_len$"):
        make(0, last_batch="pad")
    assert len(make(11, last_batch="pad")) == 1


def test_a_plain_dataloader_takes_it_as_a_batch_sampler(tmp_path):
    dataset = TokenDataset(write_corpus(tmp_path / "c", [list(range(100))]), 4)
    sampler = make(len(dataset), global_batch_size=6)
    found = [batch["sample_ids"].tolist() for batch in DataLoader(dataset, batch_sampler=sampler)]
    sampler.set_epoch(0)
    assert found == list(sampler)
