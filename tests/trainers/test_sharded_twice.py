"""No library deals to ranks once more what was dealt already: it works, or the error names the setting to change."""

import json

import pytest

from tests.trainers.recipes import ROOT, Run, launch


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("run"), "same")


@pytest.fixture(scope="module")
def ranks(run):
    launch(2, ROOT / "tests/trainers/sharded_twice.py", run.config, run.folder)
    found = [json.loads((run.folder / f"rank-{rank}.json").read_text()) for rank in range(2)]
    assert [rank["processes"] for rank in found] == [2, 2]
    return found


def epoch(run, number, rank):
    """The micro-batches of a rank: its slots of each global batch, two at a time."""
    steps = run.expected(5 * number, 5 * number + 5)
    return [step[4 * rank + first :][:2] for step in steps for first in (0, 2)]


@pytest.mark.parametrize("way", ["loader, prepared by Accelerate", "DataLoader, left alone"])
def test_ranks_get_their_own_part_once(run, ranks, way):
    assert [rank[way] for rank in ranks] == [epoch(run, 0, 0), epoch(run, 0, 1)]


@pytest.mark.parametrize("way", ["loader, by Lightning", "DataLoader, by Lightning as told"])
def test_lightning_trains_each_rank_on_its_own_part_epoch_by_epoch(run, ranks, way):
    found = [rank[way] for rank in ranks]
    assert found == [{str(number): epoch(run, number, rank) for number in range(2)} for rank in range(2)]


@pytest.mark.parametrize(
    ("way", "setting"),
    [
        ("DataLoader, prepared by Accelerate", "don't pass the DataLoader to accelerator.prepare"),
        ("DataLoader, by Lightning", "Trainer(use_distributed_sampler=False)"),
        ("StatefulDataLoader, by Lightning", "Trainer(use_distributed_sampler=False)"),
    ],
)
def test_what_would_be_dealt_twice_is_refused_with_the_setting_to_change(ranks, way, setting):
    for rank in ranks:
        assert "Error: " in rank[way]
        assert setting in rank[way]
