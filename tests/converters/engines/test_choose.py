from dataclasses import replace

import numpy as np
import pytest

from tokenyard.converters.engines import (
    TokenizerSpec,
    agree,
    build_engine,
    build_truth,
    canary,
    choose,
    choose_engine,
)
from tokenyard.converters.engines.base import Encoded, from_lists
from tokenyard.converters.engines.spec import BackendTokenizer
from tokenyard.errors import UnknownTokenizerError, VerificationError


class Wrong:
    """Gives the truth's ids, but for texts that hold `trap`."""

    name = "gigatoken"

    def __init__(self, truth, trap):
        self.truth, self.trap = truth, trap

    def encode_batch(self, texts):
        found = self.truth.encode_batch(texts).split()
        return from_lists([[7] if self.trap in text else ids.tolist() for text, ids in zip(texts, found, strict=True)])


@pytest.fixture
def wrong(monkeypatch):
    """Make gigatoken one that is wrong about texts with a trap inside."""

    def trap(text):
        monkeypatch.setitem(
            choose.ENGINES, "gigatoken", lambda spec, special_text: Wrong(build_truth(spec, special_text), text)
        )

    return trap


def test_the_canary_holds_every_plane_and_every_kind_of_trouble(gpt2):
    texts = canary(gpt2)
    whole = "".join(texts)
    assert {ord(char) >> 16 for char in whole} == {0, 1, 2, 3, 14, 15, 16}
    hidden = ("\0", "\ufeff", "\u0301", "\r\n", "\ufdd0", "\U0010ffff", "\ue000", "\u202e", "\u200d")
    written = ("👩\u200d👩\u200d👧\u200d👦", "مرحبا", "春眠", "한국어", "<|endoftext|>", "<|endoftext| ", "def f(")
    runs = (" " * 1000, "\n" * 1000, "a" * 1000, "0" * 1000)
    held = (*hidden, *written, *runs)
    assert [text for text in held if text not in whole] == []
    assert len(whole) < 500_000
    assert texts == canary(gpt2)
    whole.encode()  # no lone surrogates


def test_the_canary_holds_the_tokenizers_own_tokens_but_not_thousands_of_them(specs):
    whole = "".join(canary(specs["deepseek"]))
    assert 100 < sum(token in whole for token in specs["deepseek"].added_tokens) < 300
    assert len(whole) < 600_000


def test_auto_takes_the_fastest_that_agrees_and_says_so(gpt2):
    found = choose_engine(gpt2)
    assert found.engine.name == "gigatoken"
    assert found.reasons[-1].startswith("gigatoken: the fastest that is left; agrees with transformers on all")


def test_auto_passes_over_an_engine_that_disagrees_and_shows_the_text(gpt2, wrong):
    wrong("\U00010123")
    found = choose_engine(gpt2)
    assert found.engine.name == "fastokens"
    assert found.reasons[0].startswith("not gigatoken: gigatoken encodes '𐄣' to [7], transformers to [")


def test_an_engine_that_was_asked_for_and_disagrees_is_an_error_with_text_and_ids(gpt2, wrong):
    wrong("fox")
    with pytest.raises(VerificationError, match=r"gigatoken encodes 'fox' to \[7\], transformers to \[\d+"):
        choose_engine(gpt2, "gigatoken")


def test_auto_falls_back_to_transformers_with_a_reason_for_each_other(specs, slow):
    for spec in (specs["minilm"], slow):
        found = choose_engine(spec)
        assert found.engine.name == "transformers"
        assert [reason.split(":")[0] for reason in found.reasons] == ["not gigatoken", "not fastokens", "transformers"]


def test_an_engine_that_was_asked_for_and_can_not_take_the_tokenizer_is_an_error(specs):
    with pytest.raises(UnknownTokenizerError, match="fastokens can't take"):
        choose_engine(specs["minilm"], "fastokens")


@pytest.mark.parametrize("name", ["fastokens", "gigatoken", "transformers"])
def test_an_engine_that_was_asked_for_and_agrees_is_taken(gpt2, name):
    found = choose_engine(gpt2, name)
    assert found.engine.name == name
    assert found.reasons[0].startswith(f"{name}: asked for")


@pytest.mark.parametrize("special_text", ["encode", "plain"])
def test_whatever_is_chosen_gives_the_ids_of_transformers(spec, special_text):
    texts = ["Ünïcödé ﬁ ½", "tabs\t\tand\r\nlines\n\n\n", "if (x<=0) {return '<s>';}", "a " * 500, "你好,世界。" * 50]
    chosen = choose_engine(spec, "auto", special_text).engine.encode_batch(texts)
    right = build_truth(spec, special_text).encode_batch(texts)
    assert np.array_equal(chosen.ids, right.ids)
    assert np.array_equal(chosen.lengths, right.lengths)


def test_a_disagreement_is_cut_down_to_what_causes_it(gpt2):
    truth = build_truth(gpt2)
    found = agree(Wrong(truth, "q7"), truth, ["fine", "a long text " * 50 + "xq7y" + " and more of it" * 50])
    assert found is not None
    assert found.text == "q7"


def test_a_panic_in_a_library_is_a_reason_and_not_a_crash(gpt2, monkeypatch):
    panic = type("PanicException", (BaseException,), {})

    class Panics:
        def encode_batch(self, texts, parallel):
            raise panic("index out of bounds\n at src/lib.rs")

    engine = build_engine("gigatoken", gpt2)
    engine._tokenizer = Panics()
    monkeypatch.setitem(choose.ENGINES, "gigatoken", lambda spec, special_text: engine)
    found = choose_engine(gpt2)
    assert found.engine.name == "fastokens"
    assert "not gigatoken: gigatoken can't take a batch of" in found.reasons[0]
    assert "index out of bounds" in found.reasons[0]


def test_lengths_that_differ_are_a_disagreement_too(gpt2):
    class Empty:
        name = "fastokens"

        def encode_batch(self, texts):
            return Encoded(ids=np.empty(0, np.uint32), lengths=np.zeros(len(texts), np.int64))

    found = agree(Empty(), build_truth(gpt2), ["", "a"])
    assert str(found) == "fastokens encodes 'a' to [], transformers to [64]"


def test_workers_get_no_transformers_where_the_tokenizer_json_alone_gives_the_same(specs, monkeypatch):
    assert isinstance(choose_engine(specs["gpt2"], "transformers").spec.tokenizer, BackendTokenizer)
    other = BackendTokenizer(json=specs["minilm"].json, bos_token=None, eos_token=None)
    monkeypatch.setattr(TokenizerSpec, "without_transformers", lambda spec: replace(spec, tokenizer=other))
    assert choose_engine(specs["deepseek"], "transformers").spec is specs["deepseek"]
