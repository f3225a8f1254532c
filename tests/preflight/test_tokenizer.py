"""The canary of a tokenizer: the corpus's own, another one, and what nobody can tell."""

import json

import numpy as np
import pytest

import tokenyard
from tests.preflight.looked import look, of_corpus, the_line
from tests.preflight.texts import documents, marked, tokenized
from tests.real_data import anthropic_json, deepseek_json, gpt2_json
from tokenyard.corpus import open_corpus
from tokenyard.errors import UnknownTokenizerError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tokenized(tmp_path_factory.mktemp("text"), gpt2_json(), eos_token="<|endoftext|>")


@pytest.fixture(scope="module")
def of_others(corpus, tmp_path_factory):
    """The same ids in a file that says nothing of them."""
    folder = tmp_path_factory.mktemp("others")
    lines = (json.dumps({"tokens": row.tolist()}) + "\n" for row in map(open_corpus(corpus).__getitem__, range(40)))
    (folder / "rows.jsonl").write_text("".join(lines))
    return folder


def test_the_tokenizer_of_the_corpus_passes(corpus):
    report = look(of_corpus(corpus), tokenizer=gpt2_json())
    the_line(
        report,
        "tokenizer",
        "pass",
        match="the fingerprint is the corpus's, .*; of 63 documents decoded and encoded again 63 are the same",
    )
    assert not report.not_checked


def test_it_passes_after_packing_and_converting(corpus, tmp_path):
    tokenyard.pack(corpus, tmp_path / "packed", seq_len=128)
    tokenyard.convert(tmp_path / "packed", tmp_path / "mds", to="mds")
    report = look(of_corpus(tmp_path / "mds"), tokenizer=gpt2_json())
    the_line(report, "tokenizer", "pass", match="the fingerprint is the corpus's")


@pytest.mark.parametrize("other", [anthropic_json, deepseek_json])
def test_another_tokenizer_fails(corpus, of_others, other):
    report = look(of_corpus(corpus), tokenizer=other())
    the_line(report, "tokenizer", "fail", match="another tokenizer's ids: the fingerprint is .*-> name the tokenizer")
    the_line(look(of_corpus(of_others), tokenizer=other()), "tokenizer", "fail", match="another tokenizer's ids: of")


def test_a_corpus_of_others_is_judged_by_its_text(of_others):
    report = look(of_corpus(of_others), tokenizer=gpt2_json())
    the_line(
        report,
        "tokenizer",
        "pass",
        match="keeps no fingerprint; of 40 documents decoded and encoded again 40 are the same",
    )


def test_packed_rows_of_others_that_cut_documents_anywhere_are_judged_too(corpus, tmp_path):
    ids = np.concatenate([open_corpus(corpus)[row][:-1] for row in range(63)])
    np.save(tmp_path / "rows.npy", ids[: len(ids) // 50 * 50].reshape(-1, 50).astype(np.uint16))
    report = look(of_corpus(tmp_path), tokenizer=gpt2_json())
    the_line(report, "tokenizer", "pass", match="keeps no fingerprint; of 64 documents decoded and encoded again 6")
    report = look(of_corpus(tmp_path), tokenizer=anthropic_json())
    the_line(report, "tokenizer", "fail", match="another tokenizer's ids")


def test_another_file_that_gives_the_same_ids_warns(corpus, tmp_path):
    said = json.loads(gpt2_json().read_text())
    said["model"]["unk_token"] = "!"
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    report = look(of_corpus(corpus), tokenizer=tmp_path / "tokenizer.json")
    the_line(report, "tokenizer", "warn", match="another file, though the ids agree.*to be sure")


def test_another_vocabulary_size_warns_though_the_ids_agree(corpus, tmp_path):
    said = json.loads(gpt2_json().read_text())
    said["added_tokens"] = [
        {"id": 50257, "content": "<|pad|>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
    ]  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    report = look(of_corpus(corpus), tokenizer=tmp_path / "tokenizer.json")
    the_line(report, "tokenizer", "warn", match="vocab_size is 50258, the corpus's 50257")


def test_ids_that_are_no_text_of_the_corpus_own_tokenizer_warn(corpus, tmp_path):
    own = open_corpus(corpus).schema.tokenizer
    rows = np.random.default_rng(1).integers(300, 50000, (30, 20)).tolist()
    marked(tmp_path / "c", rows, vocab_size=50257, bos_token_id=None, eos_token_id=50256, tokenizer=own)
    report = look(of_corpus(tmp_path / "c"), tokenizer=gpt2_json())
    the_line(report, "tokenizer", "warn", match="the fingerprint is the corpus's.*are no text of this tokenizer")


def test_a_corpus_without_documents_to_try_warns(tmp_path):
    marked(tmp_path / "c", [[5], [6]])
    report = look(of_corpus(tmp_path / "c"), tokenizer=gpt2_json())
    the_line(report, "tokenizer", "warn", match="no document to try it on")


def test_a_tokenizer_that_is_not_there_is_refused(corpus, tmp_path):
    with pytest.raises(UnknownTokenizerError, match="no such file"):
        look(of_corpus(corpus), tokenizer=tmp_path / "none.json")


def test_without_a_tokenizer_that_is_told(tmp_path):
    marked(tmp_path / "c", documents(9))
    assert look(of_corpus(tmp_path / "c")).not_checked == ("the tokenizer: none is named (--tokenizer)",)
