"""DataLoaders of torch and torchdata over a loader's dataset and sampler: batch for batch what the loader gives."""

from itertools import chain

import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.corpora import random_rows, write_corpus
from tokenyard.datasets.loader import build_dataloader

#: torchdata calls a function of torch's that is deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")

NUM_EPOCHS = 2


def redrawn(sample, rng):
    """Every token is drawn: whatever changes the generator is seen."""
    return {"tokens": rng.integers(0, 1 << 16, len(sample["tokens"]))}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpora")
    for seed, name in enumerate("ab"):
        write_corpus(path / name, random_rows(seed, 30, 16))
    return path


def settings(path, kind):
    if kind == "longer windows and padding":
        return {
            "data": {"path": str(path / "a"), "sample": {"seq_len": 8}},
            "order": {
                "global_batch_size": 10,
                "last_batch": "pad",
                "block_samples": 2,
                "segments": [{"from_step": 4, "seq_len": 16}],
            },
        }
    return {
        "data": {
            "sources": [{"name": name, "path": str(path / name), "weight": 0.5} for name in "ab"],
            "sample": {"seq_len": 8},
        },
        "order": {
            "global_batch_size": 8,
            "block_samples": 2,
            "epoch_samples": 48,
            "segments": [{"from_step": 6, "seq_len": 16}],
        },
    }


@pytest.mark.parametrize("kind", ["longer windows and padding", "a mixture"])
@pytest.mark.parametrize(
    ("made", "options"),
    [
        (DataLoader, {}),
        (DataLoader, {"num_workers": 2, "multiprocessing_context": "fork"}),
        (DataLoader, {"num_workers": 2, "multiprocessing_context": "spawn"}),
        (StatefulDataLoader, {}),
        (StatefulDataLoader, {"num_workers": 2}),
    ],
)
def test_it_gives_what_the_loader_gives(path, kind, made, options):
    loader = build_dataloader(settings(path, kind), 1, 2, transform=redrawn)
    expected = list(chain.from_iterable(loader for _ in range(NUM_EPOCHS)))
    assert {batch["input_ids"].shape[1] for batch in expected} == {8, 16}
    assert kind == "a mixture" or any(not batch["sample_mask"].all() for batch in expected)
    other = build_dataloader(settings(path, kind), 1, 2, transform=redrawn)
    dataloader = made(other.dataset, batch_sampler=other.sampler, **options)
    found = list(chain.from_iterable(dataloader for _ in range(NUM_EPOCHS)))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)
