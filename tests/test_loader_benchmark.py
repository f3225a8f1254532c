"""The benchmark of the loader, small: every way must give what numpy takes."""

import json

import pytest
import torch

from benchmarks import loader
from tests.corpora import FORMATS
from tokenyard.datasets.dataset import TokenDataset

SMALL = ["--samples", "60", "--seq-len", "16", "--shards", "3", "--repeats", "1", "--batch-sizes", "4", "--formats"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_way_gives_the_tokens_that_numpy_takes(format, capsys):
    loader.main([*SMALL, format, "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["format"], row["batch size"]) == (format, 4)
    assert all(row[way] > 0 for way in ("numpy", *loader.WAYS))


def test_the_report_names_each_way(capsys):
    loader.main([*SMALL, "npy"])
    assert "npy, batches of 4: numpy" in capsys.readouterr().out


def test_other_tokens_than_numpys_stop_it(monkeypatch):
    read = TokenDataset.batch
    monkeypatch.setattr(TokenDataset, "batch", lambda *a, **k: {**read(*a, **k), "labels": torch.zeros(4, 16)})
    with pytest.raises(SystemExit, match="gave other tokens than numpy"):
        loader.main([*SMALL, "npy"])
