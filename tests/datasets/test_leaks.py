"""The proof that documents packed together don't see each other: a model gives each the logits it has alone.

The model is small and random, in float64, so that logits agree to rounding, and what leaks is seen.
"""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from tests.corpora import write_corpus
from tokenyard.converters.pack import pack
from tokenyard.datasets.dataset import TokenDataset

VOCAB, WIDTH, HEADS, SEQ_LEN = 50, 16, 2, 12
EOS = 0
LENGTHS = [12, 1, 13, 5, 7, 2, 1, 9, 24, 3, 11, 12, 6, 4]
#: Rounding in float64 is about 1e-15 here; a token that leaks moves logits by more than 1e-3.
SAME = 1e-10

# Compiled is quicker; what it computes is the same.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def causal_within_documents(batch):
    """SDPA with a mask from `document_ids`; padding, numbered -1, is a document too."""
    ids = batch["document_ids"]
    causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    mask = causal & (ids[:, :, None] == ids[:, None, :])
    return lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])


def flex_within_documents(batch):
    """FlexAttention with a block mask from `document_ids`."""
    ids = batch["document_ids"]

    def visible(b, h, q, k):
        return (q >= k) & (ids[b, q] == ids[b, k])

    block_mask = create_block_mask(visible, len(ids), None, ids.shape[1], ids.shape[1], device="cpu", BLOCK_SIZE=128)
    return lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask)


def varlen(batch):
    """What variable-length kernels do: the batch as one line, each document from `cu_seqlens` on its own."""
    ends, longest = batch["cu_seqlens"].tolist(), batch["max_seqlen"].item()

    def attend(q, k, v):
        lines = [x.transpose(1, 2).reshape(-1, *x.transpose(1, 2).shape[2:]) for x in (q, k, v)]
        out = torch.empty_like(lines[0])
        for begin, end in pairwise(ends):
            assert end - begin <= longest
            part = [x[begin:end].transpose(0, 1) for x in lines]
            out[begin:end] = scaled_dot_product_attention(*part, is_causal=True).transpose(0, 1)
        return out.reshape(q.transpose(1, 2).shape).transpose(1, 2)

    return attend


def causal(batch):
    """What a model does that is not told of documents."""
    del batch
    return lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True)


WAYS = [causal_within_documents, flex_within_documents, varlen]


class TinyTransformer(nn.Module):
    """Two layers of attention and feed-forward, with learned positions."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(SEQ_LEN, WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(WIDTH),
                    "qkv": nn.Linear(WIDTH, 3 * WIDTH),
                    "out": nn.Linear(WIDTH, WIDTH),
                    "mlp": nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()),
                }
            )
            for _ in range(2)
        )

    def forward(self, input_ids, position_ids, attend):
        x = self.tokens(input_ids) + self.positions(position_ids)
        for layer in self.layers:
            qkv = layer["qkv"](layer["norm"](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            x = x + layer["out"](attend(*qkv).transpose(1, 2).flatten(2))
            x = x + layer["mlp"](x)
        return x @ self.tokens.weight.T


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TinyTransformer().double()
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    generator = torch.Generator().manual_seed(1)
    documents = [[*torch.randint(1, VOCAB, (n - 1,), generator=generator).tolist(), EOS] for n in LENGTHS]
    path = tmp_path_factory.mktemp("documents")
    write_corpus(path / "documents", documents, shard_bytes=100, eos_token_id=EOS, vocab_size=VOCAB)
    pack(path / "documents", path / "concat", seq_len=SEQ_LEN)
    pack(path / "documents", path / "best_fit", seq_len=SEQ_LEN, strategy="best_fit")
    return path


SOURCES = {
    "windows": ("documents", {}),
    "windows by EOS": ("documents", {"documents": "eos"}),
    "windows of packed rows by EOS": ("concat", {"documents": "eos"}),
    "packed rows": ("concat", {"mode": "rows"}),
    "packed rows by EOS": ("concat", {"mode": "rows", "documents": "eos"}),
    "padded packed rows": ("best_fit", {"mode": "rows"}),
}


@pytest.fixture(scope="module", params=SOURCES)
def batch(request, path):
    corpus, options = SOURCES[request.param]
    dataset = TokenDataset(path / corpus, SEQ_LEN, boundaries=True, **options)
    return dataset.batch(range(len(dataset)))


def alone(model, batch):
    """The logits of each document run by itself. Where documents end is told by the tokens, not by what is tested."""
    pad = ~batch["attention_mask"].bool() if "attention_mask" in batch else torch.zeros_like(batch["input_ids"]).bool()
    found = []
    for line, is_padding in zip(batch["input_ids"], pad, strict=True):
        used = line[~is_padding]
        ends = ((used == EOS).nonzero().flatten() + 1).tolist()
        parts = torch.tensor_split(used, sorted({0, *ends, len(used)})[1:-1])
        logits = [model(part[None], torch.arange(len(part))[None], causal(None))[0] for part in parts]
        assert len(logits) == max(1, len(set(ends) | {len(used)}))
        found.append(torch.cat([*logits, torch.full((int(is_padding.sum()), VOCAB), math.nan, dtype=torch.float64)]))
    return torch.stack(found)


def farthest(model, batch, attend):
    """How far logits of the packed batch are from those of documents alone, at most."""
    expected = alone(model, batch)
    found = model(batch["input_ids"], batch["position_ids"], attend)
    is_token = ~expected.isnan()
    assert is_token.any()
    return (found - expected)[is_token].abs().max().item()


@pytest.mark.parametrize("way", WAYS)
def test_packed_documents_have_the_logits_that_they_have_alone(model, batch, way):
    assert batch["document_ids"].dtype == batch["position_ids"].dtype == torch.int32
    assert farthest(model, batch, way(batch)) < SAME


def test_without_a_mask_they_have_others(model, batch):
    assert farthest(model, batch, causal(batch)) > 1e-3


def test_with_positions_that_go_on_they_have_others(model, batch):
    on = {**batch, "position_ids": torch.arange(SEQ_LEN).expand_as(batch["input_ids"])}
    assert farthest(model, on, causal_within_documents(on)) > 1e-3


@pytest.mark.parametrize("way", WAYS)
def test_a_boundary_in_the_wrong_place_gives_others(model, batch, way):
    """So that a rule that is wrong by one token could not pass."""
    late = {**batch, "document_ids": batch["document_ids"].roll(1, dims=1), "cu_seqlens": batch["cu_seqlens"].clone()}
    late["cu_seqlens"][1:-1] = (late["cu_seqlens"][1:-1] + 1).clamp(max=int(late["cu_seqlens"][-1]))
    late["max_seqlen"] = torch.tensor(SEQ_LEN + 1)
    assert farthest(model, late, way(late)) > 1e-3


@pytest.mark.parametrize("way", WAYS)
def test_other_tokens_before_a_document_change_nothing_in_it(model, batch, way):
    """And what a document's first token is doesn't matter to the documents after it."""
    attend = way(batch)
    before = model(batch["input_ids"], batch["position_ids"], attend)
    changed = batch["input_ids"].clone()
    first = batch["document_ids"] == 0
    changed[first] = (changed[first] + 7) % VOCAB
    after = model(changed, batch["position_ids"], attend)
    assert torch.equal(before[~first], after[~first])
    assert not torch.equal(before[first], after[first])
