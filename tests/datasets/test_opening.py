import pytest
import torch

import tokenyard
from tests.corpora import random_rows, write_corpus
from tokenyard.config import load_config
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.mixture_dataset import MixtureDataset
from tokenyard.datasets.opening import open_dataset
from tokenyard.errors import ConfigError


@pytest.fixture
def paths(tmp_path):
    for seed, name in enumerate(("web", "code")):
        rows, format = random_rows(seed, 20, 9), ("mds", "parquet")[seed]
        write_corpus(tmp_path / name, rows, format=format, vocab_size=(1 << 16) + seed)
    return [str(tmp_path / name) for name in ("web", "code")]


def settings(**data):
    return load_config(
        {"data": {"sample": {"seq_len": 4, "boundaries": True}, **data}, "order": {"global_batch_size": 2}}
    )


def mixture(paths, **data):
    sources = [{"path": path, "weight": 1} for path in paths]
    return settings(sources=sources, allow_different_tokenizers=True, **data)


def test_settings_with_a_path_open_as_one_corpus(paths):
    dataset = open_dataset(settings(path=paths[0]))
    assert type(dataset) is TokenDataset
    assert (dataset.source_names, dataset.seq_len) == (("web",), 4)


def test_settings_with_sources_open_as_a_mixture_of_them(paths):
    dataset = open_dataset(mixture(paths))
    assert type(dataset) is MixtureDataset
    assert dataset.source_names == ("web", "code")
    made = MixtureDataset({"web": paths[0], "code": paths[1]}, 4, boundaries=True, allow_different_tokenizers=True)
    found, expected = (d.batch(range(len(made))) for d in (dataset, made))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_each_source_is_read_by_its_own_keys(paths):
    given = mixture(paths).model_dump()
    given["data"]["sources"][1]["format"] = "npy"
    with pytest.raises(ConfigError, match="is a corpus in format parquet, not npy"):
        open_dataset(load_config(given))


def test_the_key_that_lets_sources_differ_is_told(paths):
    given = mixture(paths).model_dump()
    given["data"]["allow_different_tokenizers"] = False
    with pytest.raises(ConfigError, match=r"'web' has vocab_size 65536, 'code' has 65537"):
        open_dataset(load_config(given))


def test_sources_share_the_memory_for_decoded_data(paths, monkeypatch):
    opened = []

    def record(path, *, cache_bytes, **options):
        opened.append(cache_bytes)
        return tokenyard.open_corpus(path)

    monkeypatch.setattr("tokenyard.datasets.opening.open_corpus", record)
    open_dataset(mixture(paths))
    assert opened == [1 << 29, 1 << 29]
