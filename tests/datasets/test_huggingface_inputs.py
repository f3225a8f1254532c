"""Labels that a model would shift once more are refused, and batches become what models take."""

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model, LlamaConfig, LlamaForCausalLM

from tests.corpora import write_corpus
from tokenyard.datasets.huggingface import check_labels, inputs_for
from tokenyard.datasets.loader import build_dataloader
from tokenyard.errors import ConfigError
from tokenyard.manifest import Layout

SMALL = {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": None, "eos_token_id": None}


@pytest.fixture
def corpus(tmp_path):
    rows = [[i % 50 for i in range(start, start + 20)] for start in (0, 7, 11)]
    masks = [[0] * 5 + [1] * 15] * 3
    write_corpus(tmp_path / "c", rows, vocab_size=50, loss_mask=("uint8[]", masks))
    return tmp_path / "c"


def loader_of(path, labels, **sample):
    return build_dataloader(
        {
            "data": {"path": str(path), "sample": {"seq_len": 8, "labels": labels, **sample}},
            "order": {"global_batch_size": 3},
        },
        0,
        1,
    )


def gpt2(**options):
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, **SMALL, **options)).eval()


class Compiled(nn.Module):
    """As torch.compile keeps a model."""

    def __init__(self, model):
        super().__init__()
        self._orig_mod = model


class Wrapper(nn.Module):
    """As DistributedDataParallel keeps a model."""

    def __init__(self, module):
        super().__init__()
        self.module = module


@pytest.mark.parametrize("wrap", [lambda model: model, Wrapper, Compiled, lambda model: Wrapper(Wrapper(model))])
def test_shifted_labels_are_refused_for_a_model_that_shifts_them(corpus, wrap):
    loader, model = loader_of(corpus, "shifted"), wrap(gpt2())
    message = "GPT2LMHeadModel shifts labels itself, so it would .* two tokens ahead; set data.sample.labels to same"
    for refused in (
        lambda: check_labels(loader, model),
        lambda: check_labels(loader.dataset, model),
        lambda: inputs_for(model, loader),
    ):
        with pytest.raises(ConfigError, match=message):
            refused()


@pytest.mark.parametrize("model", [nn.Linear(1, 1), GPT2Model(GPT2Config(vocab_size=50, **SMALL))])
def test_models_that_take_no_labels_may_have_them_shifted(corpus, model):
    check_labels(loader_of(corpus, "shifted"), model)


@pytest.mark.parametrize("labels", ["same", "none"])
def test_labels_that_are_not_shifted_pass(corpus, labels):
    check_labels(loader_of(corpus, labels), gpt2())


def test_the_loss_is_that_of_the_next_token_where_the_mask_lets_it_count(corpus):
    loader, model = loader_of(corpus, "same", boundaries=True), gpt2()
    inputs = inputs_for(Wrapper(model), loader)
    (batch, *_) = loader
    taken = inputs(batch)
    assert sorted(taken) == ["input_ids", "labels", "position_ids", "use_cache"]
    logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits[:, :-1]
    targets = batch["input_ids"][:, 1:].clone()
    masked = batch["labels"][:, 1:] == -100
    assert masked.any()
    assert not masked.all()
    targets[masked] = -100
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(model(**taken).loss, expected)


def llama(attention):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=50, attn_implementation=attention, **sizes)).eval()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("mode", ["rows", "concat"])
@pytest.mark.parametrize("make", [llama, lambda attention: gpt2(attn_implementation=attention)])
def test_documents_of_a_batch_do_not_see_each_other(tmp_path, make, mode, attention):
    layout = Layout(kind="packed", seq_len=12, lengths_field="lengths")
    rows, lengths = [[*range(1, 13)], [*range(13, 25)], [*range(25, 37)]], [[5, 7], [12], [3, 3, 6]]
    if mode == "rows":
        write_corpus(tmp_path / "c", rows, vocab_size=50, layout=layout, lengths=("uint32[]", lengths))
    else:
        write_corpus(tmp_path / "c", [[*range(1, 6)], [*range(6, 13)], *rows[1:]], vocab_size=50)
    loader = loader_of(tmp_path / "c", "same", mode=mode, seq_len=12, boundaries=True)
    model = make(attention)
    inputs = inputs_for(model, loader)
    (batch,) = loader
    assert batch["position_ids"].dtype == torch.int32
    first = batch["document_ids"] == 0
    assert not first.all()
    other = {**batch, "input_ids": torch.where(first, (batch["input_ids"] + 1) % 50, batch["input_ids"])}
    with torch.no_grad():
        seen, changed = model(**inputs(batch)).logits, model(**inputs(other)).logits
        torch.testing.assert_close(changed[~first], seen[~first], rtol=0, atol=1e-6)
        # With the mask that a batch has for other uses, they would.
        leaky = {**inputs(batch), "attention_mask": torch.ones_like(batch["input_ids"])}
        leaked = {**inputs(other), "attention_mask": torch.ones_like(batch["input_ids"])}
        assert (model(**leaky).logits - model(**leaked).logits)[~first].abs().max() > 1e-4
