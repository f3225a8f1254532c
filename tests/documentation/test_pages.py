"""Every block of code in the documents does what the page says, in the order of the page."""

import argparse
import ast
import inspect
import json
import pydoc
import tarfile
import typing
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import tokenyard
from tests.documentation.blocks import Reader, blocks_of, lay_out
from tests.real_data import gpt2_json

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    page.relative_to(REPOSITORY)
    for page in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")]
    if blocks_of(page)
)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of a reader who ran `make demo`, in small, with texts of their own."""
    folder = tmp_path_factory.mktemp("reader")
    lay_out(folder, REPOSITORY)
    (folder / "texts").mkdir()
    texts = [inspect.getsource(module) for module in (argparse, ast, inspect, pydoc, tarfile, typing)]
    with open(folder / "texts/library.jsonl", "w") as file:
        file.writelines(json.dumps({"text": piece}) + "\n" for text in texts for piece in text.split("\n\n\n"))
    data = folder / "data/demo"
    data.mkdir(parents=True)
    tokenizer = data / "tokenizer.json"
    tokenizer.write_bytes(gpt2_json().read_bytes())
    tokenyard.tokenize(
        [str(folder / "texts/*.jsonl")], data / "documents", tokenizer=tokenizer, eos_token="<|endoftext|>"
    )
    tokenyard.pack(data / "documents", data / "mds", seq_len=256, strategy="best_fit", format="mds")
    return folder


def a_hugging_face_model(names: dict[str, Any]) -> None:
    config = tokenyard.load_config("configs/train-mds.yaml").model_dump(exclude_defaults=True)
    config["data"]["sample"] |= {"labels": "same", "boundaries": True}
    names["loader"] = tokenyard.build_dataloader(config, 0, 1)
    names["batch"] = next(iter(names["loader"]))
    names["model"] = GPT2LMHeadModel(GPT2Config(vocab_size=50257, n_positions=256, n_embd=8, n_layer=1, n_head=1))


def queries_keys_and_values(names: dict[str, Any]) -> None:
    names |= dict.fromkeys("qkv", torch.rand(*names["batch"]["input_ids"].shape, 8)[:, None])


#: What blocks take as given, by a piece of their code.
GIVEN = {"inputs_for(model, loader)": a_hugging_face_model, "attn_mask=mask": queries_keys_and_values}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_each_block_runs(page: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    assert Reader(REPOSITORY / page, workspace, GIVEN).read() == len(blocks_of(REPOSITORY / page)) > 0


def test_a_block_that_does_not_run_is_told_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for code, error, told in (
        ("```python\nx = 1\n```\n\n```python\nx.y\n```\n", AttributeError, "page.md:6"),
        ("```\ntokenyard no-such-command\n```\n", AssertionError, "page.md:2"),
        ("```yaml\norder: {no_such_key: 1}\n```\n", tokenyard.errors.ConfigError, "page.md:2"),
        ("```ruby\n```\n", ValueError, "page.md:2"),
    ):
        page.write_text(code)
        with pytest.raises(error) as caught:
            Reader(page, tmp_path, {}).read()
        assert told in "".join(caught.value.__notes__)
