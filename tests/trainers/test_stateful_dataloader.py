"""torchdata's StatefulDataLoader over a RankSampler: stopped after any batch, it goes on with the one after it."""

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.corpora import write_corpus
from tokenyard.datasets.loader import build_dataloader

#: torchdata calls a function of torch's that is deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")

#: Of epochs of 6 batches: before the first, in the middle, where the epoch ends, and in the epoch after it.
STOPS = [0, 1, 4, 6, 7, 11]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "c"
    write_corpus(path, [list(range(200))])
    return {
        "data": {"path": str(path), "sample": {"seq_len": 8}},
        "order": {"global_batch_size": 4, "block_samples": 2},
    }


def make(config, **options):
    loader = build_dataloader(config, 0, 2)
    return StatefulDataLoader(loader.dataset, batch_sampler=loader.sampler, **options)


def take(batches, count):
    """Batches of one epoch after another, each loop over all of one but the last."""
    found = []
    while len(found) < count:
        for batch in batches:
            found.append(batch["sample_ids"].tolist())
            if len(found) == count:
                break
    return found


def expected(config, count):
    return take(build_dataloader(config, 0, 2), count)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", STOPS)
def test_it_goes_on_with_the_batch_after_the_last_one_taken(config, workers, stop):
    whole = expected(config, 14)
    begun = make(config, num_workers=workers)
    assert take(begun, stop) == whole[:stop]
    state = begun.state_dict()
    gone_on = make(config, num_workers=workers)
    gone_on.load_state_dict(state)
    assert take(gone_on, 14 - stop) == whole[stop:]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_counts_what_was_taken_and_not_what_was_fetched(config, workers):
    batches = make(config, num_workers=workers, prefetch_factor=2 if workers else None)
    iterator = iter(batches)
    for taken in range(1, 6):
        next(iterator)
        gone_on = make(config, num_workers=workers)
        gone_on.load_state_dict(batches.state_dict())
        assert take(gone_on, 6 - taken) == expected(config, 6)[taken:]


@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_loop_that_ended_by_itself_comes_the_next_epoch(config, workers):
    begun = make(config, num_workers=workers)
    assert [batch["sample_ids"].tolist() for batch in begun] == expected(config, 6)
    gone_on = make(config, num_workers=workers)
    gone_on.load_state_dict(begun.state_dict())
    assert take(gone_on, 6) == expected(config, 12)[6:]


def test_one_state_serves_more_loads(config):
    begun = make(config)
    take(begun, 4)
    state = begun.state_dict()
    gone_on = make(config)
    for _ in range(2):
        gone_on.load_state_dict(state)
        assert take(gone_on, 10) == expected(config, 14)[4:]
