"""The two worked examples of transforms: what they promise of any sample, and that they run as they are told to."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from examples.transforms.fill_in_the_middle import FillInTheMiddle
from examples.transforms.masking import Masking
from tests.corpora import write_corpus
from tokenyard.datasets.dataset import TokenDataset

ROOT = Path(__file__).parent.parent
PRE, MID, SUF, EOS = 201, 202, 203, 0
SENTINELS = {"prefix_id": PRE, "middle_id": MID, "suffix_id": SUF}


def undone(tokens):
    """The document that a cut one was made of."""
    tokens = list(tokens)
    if not tokens or tokens[0] != PRE:
        return tokens
    suffix_at, middle_at = tokens.index(SUF), tokens.index(MID)
    last = [tokens.pop()] if tokens[-1] == EOS else []
    prefix, suffix, middle = tokens[1:suffix_at], tokens[suffix_at + 1 : middle_at], tokens[middle_at + 1 :]
    # In SPM the prefix stands before the middle, after the sentinel of the middle.
    return [*middle, *suffix, *last] if suffix_at == 1 else [*prefix, *middle, *suffix, *last]


@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    rate=st.sampled_from([0.0, 0.5, 1.0]),
    spm_rate=st.sampled_from([0.0, 1.0]),
    has_mask=st.booleans(),
    has_starts=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_documents_are_cut_in_three_and_nothing_else_changes(lengths, rate, spm_rate, has_mask, has_starts, seed):
    rng = np.random.default_rng(seed)
    documents = [[*rng.integers(1, 200, n - 1).tolist(), EOS] for n in lengths]
    tokens = np.array([t for d in documents for t in d])
    sample = {"tokens": tokens.copy(), "input_width": len(tokens), "sample_id": 0}
    begins = np.cumsum([0, *lengths[:-1]])
    if has_mask:
        sample["loss_mask"] = tokens % 2 == 1
    if has_starts:
        sample["document_starts"] = np.isin(np.arange(len(tokens)), begins)
    else:
        documents = [tokens.tolist()]
    transform = FillInTheMiddle(**SENTINELS, rate=rate, spm_rate=spm_rate, min_tokens=6, eos_token_id=EOS)
    result = transform(sample, rng)
    assert len(result["tokens"]) == len(tokens)
    starts = result["document_starts"] if has_starts else np.arange(len(tokens)) == 0
    found = np.split(result["tokens"], np.flatnonzero(starts)[1:])
    # The last one may have lost its end.
    for document, part in zip(documents, found[:-1], strict=False):
        assert undone(part) == document
        assert (part[0] == PRE) == (rate == 1 and len(document) >= 6) or rate == 0.5
    assert len(found) <= len(documents)
    if rate == 0:
        assert np.array_equal(result["tokens"], tokens)
    if has_mask:
        assert np.array_equal(result["loss_mask"], (result["tokens"] % 2 == 1) | (result["tokens"] > 200))


@pytest.mark.parametrize(("spm_rate", "begins"), [(0.0, [PRE, 10]), (1.0, [PRE, SUF])])
def test_both_forms_are_those_of_the_paper(spm_rate, begins):
    tokens = np.concatenate([np.arange(10, 60), np.full(3, EOS)])
    transform = FillInTheMiddle(**SENTINELS, rate=1.0, spm_rate=spm_rate)
    found = [transform({"tokens": tokens}, np.random.default_rng(i))["tokens"] for i in range(50)]
    assert sum(line[:2].tolist() == begins for line in found) > 40
    assert all(sorted(t for t in line if t > 200) == [PRE, MID, SUF] for line in found[:5])
    assert len({tuple(line) for line in found}) > 20


def test_about_so_many_documents_are_cut_as_asked_for():
    sample = {"tokens": np.arange(10, 30), "document_starts": np.arange(20) == 0}
    transform = FillInTheMiddle(**SENTINELS, rate=0.3, spm_rate=0.5)
    rng = np.random.default_rng(0)
    found = [transform(sample, rng)["tokens"] for _ in range(2000)]
    cut = [line for line in found if line[0] == PRE]
    assert 0.26 < len(cut) / 2000 < 0.34
    # A PSM whose prefix is empty begins like an SPM: one in about twelve.
    assert 0.44 < sum(line[1] == SUF for line in cut) / len(cut) < 0.64


def test_cut_documents_keep_their_boundaries_in_batches(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[*range(10, 30), EOS], [*range(30, 60), EOS]], eos_token_id=EOS)
    transform = FillInTheMiddle(**SENTINELS, rate=1.0, eos_token_id=EOS)
    batch = TokenDataset(corpus, 48, boundaries=True, mask_boundaries=True, transform=transform).batch([0])
    assert batch["cu_seqlens"].tolist() == [0, 24, 48]
    assert batch["input_ids"][0, [0, 23, 24]].tolist() == [PRE, EOS, PRE]
    assert batch["labels"][0, 23] == -100
    assert (batch["labels"][0, :23] == batch["input_ids"][0, 1:24]).all()


@given(width=st.integers(1, 60), past=st.integers(0, 1), has_mask=st.booleans(), seed=st.integers(0, 1000))
def test_only_masked_places_are_labels_and_nothing_else_changes(width, past, has_mask, seed):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 200, width + past)
    sample = {"tokens": tokens.copy(), "input_width": width, "sample_id": 0}
    if has_mask:
        sample["loss_mask"] = tokens % 2 == 0
    result = Masking(mask_id=201, vocab_size=200, rate=0.5, special_ids=(EOS, 4))(sample, rng)
    labels, chosen = result["labels"], result["labels"] != -100
    assert (len(labels), len(result["tokens"])) == (width, width + past)
    assert np.array_equal(labels[chosen], tokens[:width][chosen])
    assert np.array_equal(result["tokens"][:width][~chosen], tokens[:width][~chosen])
    assert np.array_equal(result["tokens"][width:], tokens[width:])
    assert not np.isin(labels, [EOS, 4]).any()
    if has_mask:
        assert (labels[chosen] % 2 == 0).all()


def test_the_rates_are_fifteen_percent_and_of_these_eighty_ten_and_ten():
    tokens = np.full(200_000, 7)
    result = Masking(mask_id=201, vocab_size=200)(
        {"tokens": tokens.copy(), "input_width": len(tokens)}, np.random.default_rng(0)
    )
    chosen = result["labels"] != -100
    hidden = result["tokens"][chosen]
    kept, random = (hidden == 7).mean(), np.isin(hidden, [*range(7), *range(8, 200)]).mean()
    assert chosen.mean() == pytest.approx(0.15, abs=0.003)
    assert (hidden == 201).mean() == pytest.approx(0.8, abs=0.01)
    assert (kept, random) == (pytest.approx(0.1, abs=0.01), pytest.approx(0.1, abs=0.01))
    assert len(np.unique(hidden)) == 201


@pytest.mark.parametrize("labels", ["shifted", "same"])
def test_labels_stand_where_tokens_were_hidden(tmp_path, labels):
    tokens = np.random.default_rng(0).integers(1, 200, 300)
    corpus = write_corpus(tmp_path / "c", [tokens.tolist()])
    transform = Masking(mask_id=201, vocab_size=200, rate=0.5)
    dataset = TokenDataset(corpus, 32, labels=labels, transform=transform)
    batch, plain = dataset.batch(range(9)), TokenDataset(corpus, 32, labels=labels).batch(range(9))
    hidden = batch["labels"] != -100
    assert torch.equal(batch["labels"][hidden], plain["input_ids"][hidden])
    assert torch.equal(batch["input_ids"][~hidden], plain["input_ids"][~hidden])
    assert 0.4 < hidden.double().mean() < 0.6


@pytest.mark.parametrize(
    "arguments",
    [
        ["fill_in_the_middle.py", "--sentinels", str(PRE), str(MID), str(SUF)],
        ["masking.py", "--mask-id", "201", "--vocab-size", "200"],
    ],
)
def test_the_examples_run(tmp_path, arguments):
    write_corpus(tmp_path / "c", [list(range(1, 200))] * 3, vocab_size=256)
    settings = tmp_path / "train.yaml"
    settings.write_text(f"data: {{path: {tmp_path / 'c'}, sample: {{seq_len: 64}}}}\norder: {{global_batch_size: 4}}\n")
    script, *rest = arguments
    command = [sys.executable, ROOT / "examples" / "transforms" / script, "--config", settings, *rest]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    before, after = done.stdout.splitlines()[:2]
    assert before.startswith("before [")
    assert after.startswith("after  [")
    assert before.split()[1:] != after.split()[1:]
