import numpy as np
import pytest
import torch

import tokenyard
from tests.corpora import random_rows, write_corpus
from tokenyard.datasets.mixture_dataset import MixtureDataset
from tokenyard.datasets.order import key
from tokenyard.errors import TransformError

VOCAB = 1 << 16


def redrawn(sample, rng):
    return {"tokens": rng.integers(0, VOCAB, len(sample["tokens"]))}


def settings(path, **engine):
    return {
        "data": {
            "sources": [
                {"name": "a", "path": str(path / "a"), "weight": 0.7},
                {"name": "b", "path": str(path / "b"), "weight": 0.3},
            ],
            "sample": {"seq_len": 8},
        },
        "order": {"seed": 7, "global_batch_size": 8, "epoch_samples": 320},
        "loader": engine,
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixture")
    for seed, name in enumerate("ab"):
        write_corpus(path / name, random_rows(seed, 30, 40), shard_bytes=600, eos_token_id=seed + 1)
    return path


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 2, "multiprocessing_context": "fork"}])
def test_a_mixture_draws_by_source_epoch_and_sample_at_any_number_of_workers(path, engine):
    plain = tokenyard.build_dataloader(settings(path, num_threads=0), 0, 1, transform=redrawn)
    other = tokenyard.build_dataloader(settings(path, **engine), 0, 1, transform=redrawn)
    seen = {}
    for a, b in zip(plain, other, strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a)
        for source, sample, line in zip(
            *(a[n].tolist() for n in ("source_ids", "sample_ids", "input_ids")), strict=True
        ):
            epoch = seen.setdefault((source, sample), 0)
            seen[source, sample] += 1
            rng = np.random.Generator(np.random.Philox(key=key(7, epoch, 16 + 4 * source + 3, sample)))
            assert line == rng.integers(0, VOCAB, 9).tolist()[:8]
    assert max(seen.values()) > 1


def test_by_index_a_mixture_draws_as_the_loader_does_in_the_first_epoch(path):
    loader = tokenyard.build_dataloader(settings(path, num_threads=0), 0, 1, transform=redrawn)
    mixture = loader.dataset
    seen = set()
    for batch in loader:
        flat = mixture.flat_ids(batch["source_ids"], batch["sample_ids"]).tolist()
        for line, (index, sample) in enumerate(zip(flat, mixture.__getitems__(flat), strict=True)):
            if index not in seen:
                assert torch.equal(sample["input_ids"], batch["input_ids"][line])
                assert torch.equal(mixture[index]["input_ids"], batch["input_ids"][line])
            seen.add(index)
    first, second = (mixture[int(mixture.flat_ids(source, 3))] for source in (0, 1))
    assert first["sample_ids"] == second["sample_ids"]
    assert not torch.equal(first["input_ids"], second["input_ids"])


def shortened(sample, rng):
    return {"tokens": sample["tokens"][:3]}


def failing(sample, rng):
    raise ValueError("no")


def test_errors_name_the_source_too(path):
    sources = {"a": path / "a", "b": path / "b"}
    mixture = MixtureDataset(sources, 8, transform=shortened)
    index = int(mixture.flat_ids(1, 5))
    with pytest.raises(TransformError, match=r"^sample 5 of source 'b', returned by the transform: tokens: expected"):
        mixture[index]
    with pytest.raises(ValueError, match="no") as caught:
        MixtureDataset(sources, 8, transform=failing)[index]
    assert caught.value.__notes__ == ["while transforming sample 5 of source 'b'"]


def test_each_source_of_a_mixture_has_its_own_eos_id(path):
    mixture = MixtureDataset({"a": path / "a", "b": path / "b"}, 8, boundaries=True, documents="eos")
    for source in range(2):
        alone = tokenyard.TokenDataset(path / "ab"[source], 8, boundaries=True, documents="eos")
        ids = np.arange(5)
        found = mixture.batch(mixture.flat_ids(source, ids))
        assert torch.equal(found["document_ids"], alone.batch(ids)["document_ids"])
