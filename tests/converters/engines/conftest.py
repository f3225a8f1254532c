"""Tokenizers that the tests of engines share, loaded once."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest

from tests import real_data
from tokenyard.converters.engines import TokenizerSpec, load_tokenizer


@pytest.fixture(autouse=True)
def alone(tmp_path_factory, monkeypatch):
    """A user's cache of their own, for each test."""
    folder = tmp_path_factory.mktemp("user-cache")
    monkeypatch.setenv("TOKENYARD_CACHE", str(folder))
    return folder


LOAD = {
    "gpt2": lambda: load_tokenizer(real_data.gpt2_json(), eos_token="<|endoftext|>"),
    "anthropic": lambda: load_tokenizer(real_data.anthropic_json()),
    "deepseek": lambda: load_tokenizer(real_data.deepseek_json()),
    "minilm": lambda: load_tokenizer(real_data.minilm_json()),
}


@pytest.fixture(scope="session")
def specs() -> dict[str, TokenizerSpec]:
    return {name: load() for name, load in LOAD.items()}


@pytest.fixture(params=LOAD)
def spec(request, specs) -> TokenizerSpec:
    """Each real tokenizer in turn."""
    return specs[request.param]


@pytest.fixture
def gpt2(specs) -> TokenizerSpec:
    return specs["gpt2"]


@pytest.fixture
def slow(tmp_path) -> TokenizerSpec:
    """A tokenizer without a tokenizer.json: transformers' own ByT5, which is bytes."""
    from transformers import ByT5Tokenizer

    ByT5Tokenizer().save_pretrained(tmp_path / "byt5")
    return load_tokenizer(tmp_path / "byt5")
