"""The benchmark of the loader, small: every way, and every peer, must give what numpy takes."""

import pytest
import torch

from benchmarks import loader
from tests.corpora import FORMATS
from tokenyard.datasets.dataset import TokenDataset

SMALL = ["--rows", "64", "--seq-len", "16", "--shards", "3", "--rounds", "1", "--seconds", "0.01"]
ALONE = [*SMALL, "--no-peers", "--batch-sizes", "4", "--formats"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_way_gives_the_tokens_that_numpy_takes(format):
    found = loader.main([*ALONE, format])
    assert [result.case for result in found] == [f"{format}, batch 4, {way}" for way in ("loader", "threads", "batch")]
    assert all(result.measured > 0 for result in found)


def test_the_loader_without_threads_is_what_the_bar_is_for():
    found = loader.main([*SMALL, "--no-peers", "--batch-sizes", "16", "64", "--formats", "npy"])
    assert {result.case: result.bar for result in found if result.bar} == {
        "npy, batch 16, loader": 0.35,
        "npy, batch 64, loader": 0.45,
    }


def test_other_tokens_than_numpys_stop_it(monkeypatch):
    read = TokenDataset.batch
    monkeypatch.setattr(TokenDataset, "batch", lambda *a, **k: {**read(*a, **k), "labels": torch.zeros(4, 16)})
    with pytest.raises(SystemExit, match="gave other tokens than numpy"):
        loader.main([*ALONE, "npy"])


def test_peers_are_compared_one_by_one_and_the_fastest_again():
    options = ["--peer-batch-sizes", "4", "--peer-rounds", "1", "--peer-seconds", "0.01", "--workers", "2"]
    names = ["MMapDataset", "webdataset", loader.TUNED]
    found = loader.main([*SMALL, *options, "--batch-sizes", "--peers", *names, "--formats", "npy"])
    *each, fastest = (result.case for result in found)
    assert each == [f"npy, batch 4, {name}" for name in names]
    assert fastest in [f"npy, batch 4, the fastest peer: {name}" for name in names[:2]]
    assert found[-1].bar == 2
