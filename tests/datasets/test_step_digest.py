import json
from pathlib import Path

import pytest
import torch
from blake3 import blake3

from tests.corpora import FORMATS
from tests.runs import RUNS, loaders, open_run, settings, write_corpora
from tokenyard.config import load_config
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.step_digest import (
    digest_of_batch,
    digest_of_slots,
    run_digest,
    source_numbers,
    step_digests,
)
from tokenyard.errors import ConfigError

GOLDEN = json.loads((Path(__file__).parent / "golden_digests.json").read_text())
STEPS = 12


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


def digests(config, world_size=1, first=0, stop=STEPS):
    return list(step_digests(*open_run(config, world_size), first, stop))


def test_a_digest_is_defined_byte_by_byte():
    def u64(x):
        return x.to_bytes(8, "little")

    slots = u64(2) + u64(1 << 40) + b"\0" + u64(0) + u64(5) + b"\1"
    expected = blake3(b"tokenyard/step/1\0" + u64(300) + u64(2) + slots)
    assert digest_of_slots(300, [2, 0], [1 << 40, 5], [False, True]) == expected.hexdigest()
    assert run_digest([expected.hexdigest()] * 2) == blake3(b"tokenyard/run/1\0" + expected.digest() * 2).hexdigest()
    assert run_digest([]) == blake3(b"tokenyard/run/1\0").hexdigest()


@pytest.mark.parametrize("name", RUNS)
def test_digests_are_what_they_always_were(home, name):
    of_steps = digests(settings(home, **RUNS[name]))
    assert [of_steps[0], of_steps[-1], run_digest(of_steps)] == GOLDEN[name]


@pytest.mark.parametrize("name", RUNS)
def test_digests_depend_neither_on_world_size_nor_on_micro_batches(home, name):
    expected = digests(settings(home, **RUNS[name]))
    assert digests(settings(home, **RUNS[name], micro_batch_size=2), world_size=2) == expected
    assert digests(settings(home, **RUNS[name], micro_batch_size=1), world_size=4) == expected


@pytest.mark.parametrize("name", ["windows", "mixture of rows"])
@pytest.mark.parametrize("format", FORMATS)
def test_digests_are_equal_in_every_format(tmp_path, format, name):
    of_steps = digests(settings(write_corpora(tmp_path, format), **RUNS[name]))
    assert run_digest(of_steps) == GOLDEN[name][-1]


def test_any_step_can_be_asked_for_alone(home):
    config = settings(home, **RUNS["weights"])
    assert [digests(config, 1, step, step + 1)[0] for step in range(STEPS)] == digests(config)


@pytest.mark.parametrize(
    "change", [{"order": {"seed": 8}}, {"order": {"global_batch_size": 4}}, {"sample": {"seq_len": 7}}]
)
def test_another_order_has_other_digests(home, change):
    of_steps, others = digests(settings(home)), digests(settings(home, **change))
    assert not set(of_steps) & set(others)


def test_another_weight_has_other_digests(home):
    of_one, of_other = (digests(settings(home, mixture=True, weights=weights)) for weights in ((0.7, 0.3), (0.5, 0.5)))
    assert run_digest(of_one) != run_digest(of_other)


@pytest.mark.parametrize("name", RUNS)
def test_a_running_job_has_the_digests_that_were_planned(home, name):
    config = settings(home, **RUNS[name], micro_batch_size=2)
    found = []
    for of_ranks in zip(*(loader.steps() for loader in loaders(config, 2)), strict=True):
        batches = [batch for of_rank in of_ranks for batch in of_rank]
        joined = {
            key: torch.cat([batch[key] for batch in batches])
            for key in ("sample_ids", "source_ids", "sample_mask")
            if key in batches[0]
        }
        found.append(digest_of_batch(len(found), **joined))
    assert found == digests(config, stop=len(found))
    assert len(found) > 5


def test_a_run_that_goes_on_with_other_sources_numbers_them_as_it_began(home):
    first, second = (
        {"data": {"sources": [{"path": str(home / name), "weight": 1} for name in names], "sample": {"seq_len": 8}},
         "order": {"global_batch_size": 4, "epoch_samples": 80}}
        for names in (["web"], ["code", "web"])
    )  # fmt: skip
    began, _ = open_run(load_config(first))
    config = load_config(second)
    (loader,) = loaders(config)
    loader.load_state_dict(began.state(3), new_segment=True)
    batches = loader.sampler.batches
    numbers = source_numbers(batches.plan, loader.dataset, 3)
    assert numbers == [1, 0]
    assert source_numbers(batches.plan, loader.dataset, 2) == [-1, 0]
    planned = list(step_digests(batches, loader.dataset, 3, 7))
    for step, batch in zip(range(3, 7), loader, strict=False):
        ids = batch["sample_ids"], batch["source_ids"]
        assert digest_of_batch(step, *ids, numbers=numbers) == planned[step - 3]
        assert digest_of_batch(step, *ids) != planned[step - 3]
    with pytest.raises(ConfigError, match=r"at step 2 the numbers of the dataset's sources are \[-1, 0\]"):
        digest_of_batch(2, [1, 1], [0, 1], numbers=[-1, 0])
    dataset = open_dataset(config)
    assert source_numbers(make_batches(config, dataset, 0, 1).plan, dataset, 0) == [0, 1]


def test_tensors_of_different_shapes_are_refused():
    with pytest.raises(ConfigError, match=r"sample_ids of \(2,\), source_ids of \(1,\).*join those of all micro-b"):
        digest_of_batch(0, [1, 2], [0])
    with pytest.raises(ConfigError, match=r"of one dimension and of one length, found sample_ids of \(1, 2\)"):
        digest_of_batch(0, torch.tensor([[1, 2]]))
