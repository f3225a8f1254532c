import random
import re
import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import real_data
from tokenyard.converters.engines import (
    CutLimits,
    NoCutRule,
    SpecialTextFinder,
    Uncuttable,
    build_engine,
    build_truth,
    cut_document,
    derive_cut_rule,
    encode_parts,
    find_disagreement,
    load_tokenizer,
)

SMALL = CutLimits(whole_chars=100, part_chars=50, max_uncut_bytes=2_000)


@pytest.fixture
def rule(spec):
    return derive_cut_rule(spec, build_truth(spec))


def long_text(seed, num_words):
    words = ["the", "don't", "x==1", "\n\n", "  indented", "春眠不觉晓，", "é", "12345", "<s>", "end.\n", "\t\t"]
    generator = random.Random(seed)
    return " ".join(generator.choice(words) for _ in range(num_words))


def test_the_parts_of_long_documents_encode_to_the_ids_of_the_whole(spec, rule):
    truth = build_truth(spec)
    texts = [long_text(seed, 400) for seed in range(20)]
    documents = [cut_document(text, rule, SMALL) for text in texts]
    assert all(len(parts) > 10 for parts in documents)
    assert all(max(map(len, parts)) <= 100 for parts in documents)
    found = encode_parts(truth, documents)
    right = truth.encode_batch(texts)
    assert np.array_equal(found.ids, right.ids)
    assert np.array_equal(found.lengths, right.lengths)


def test_a_text_that_is_not_long_is_its_own_only_part(gpt2):
    assert cut_document("a b " * 25, NoCutRule(reason="none"), SMALL) == ("a b " * 25,)
    assert cut_document("", NoCutRule(reason="none"), SMALL) == ("",)


def test_parts_reach_further_where_there_are_no_cuts_and_go_on_behind(gpt2):
    rule = derive_cut_rule(gpt2, build_truth(gpt2))
    text = "some words here " * 10 + "x" * 1_000 + " and some more" * 10
    parts = cut_document(text, rule, SMALL)
    assert "".join(parts) == text
    assert max(map(len, parts)) < 1_060
    assert len(parts) > 5


def test_a_stretch_without_a_cut_above_the_limit_is_refused_with_its_place(gpt2):
    rule = derive_cut_rule(gpt2, build_truth(gpt2))
    found = cut_document("é " * 30 + "x" * 3_000 + " y", rule, SMALL)
    assert isinstance(found, Uncuttable)
    assert found.byte == 89
    assert found.message == (
        "3003 bytes from byte 89 on can't be cut, above max_uncut_bytes = 2000: no cut is proven inside"
    )


def test_without_a_rule_a_text_may_be_as_long_as_the_limit_and_no_longer():
    rule = NoCutRule(reason="the reason")
    assert cut_document("é" * 1_000, rule, SMALL) == ("é" * 1_000,)
    found = cut_document("é" * 1_001, rule, SMALL)
    assert isinstance(found, Uncuttable)
    assert found.message == "2002 bytes from byte 0 on can't be cut, above max_uncut_bytes = 2000: the reason"


def test_a_document_of_many_megabytes_needs_little_memory(gpt2):
    truth = build_truth(gpt2)
    rule = derive_cut_rule(gpt2, truth)
    text = long_text(1, 400_000)
    parts = cut_document(text, rule)
    assert isinstance(parts, tuple)
    assert max(map(len, parts)) <= CutLimits().part_chars
    tracemalloc.start()
    found = encode_parts(build_engine("gigatoken", gpt2), [parts])
    assert tracemalloc.get_traced_memory()[1] < 40 << 20
    tracemalloc.stop()
    assert found.lengths.tolist() == [len(found.ids)]
    assert len(found.ids) > 400_000


def test_documents_of_one_part_and_of_none_keep_their_lengths(gpt2):
    truth = build_truth(gpt2)
    found = encode_parts(truth, [("a",), ("",), ("b c", " d"), ("e",)])
    assert found.lengths.tolist() == [1, 0, 3, 1]
    assert encode_parts(truth, []).lengths.tolist() == []


def test_a_proof_finds_the_document_whose_ids_differ(gpt2):
    truth = build_truth(gpt2)
    documents = [("one",), ("two", " parts"), ("three",)]
    encoded = encode_parts(truth, documents)
    assert find_disagreement(encoded, "gigatoken", truth, documents) is None
    encoded.ids[2] += 1
    number, disagreement = find_disagreement(encoded, "gigatoken", truth, documents)
    assert number == 1
    assert str(disagreement) == "gigatoken encodes 'two parts' to [11545, 3355], transformers to [11545, 3354]"


def test_text_that_spells_special_tokens_is_counted_longest_first(specs):
    finder = SpecialTextFinder(specs["minilm"])
    assert dict(finder.count("[CLS] a [SEP][SEP] [cls] [CL")) == {"[CLS]": 1, "[SEP]": 2}
    assert dict(finder.count("nothing here")) == {}
    assert dict(SpecialTextFinder(specs["gpt2"]).count("a<|endoftext|>")) == {"<|endoftext|>": 1}


@given(tokens=st.sets(st.text("<|ab>", min_size=1, max_size=5), max_size=5), text=st.text("<|ab>", max_size=40))
def test_special_text_is_found_as_it_is_without_the_quick_look(specs, tokens, text):
    finder = SpecialTextFinder(replace(specs["gpt2"], special_tokens=tuple(tokens)))
    longest_first = sorted(tokens, key=lambda token: (-len(token), token))
    expected = Counter(re.findall("|".join(map(re.escape, longest_first)), text)) if tokens else Counter()
    assert finder.count(text) == expected


def test_a_tokenizer_without_special_tokens_finds_none():
    assert dict(SpecialTextFinder(load_tokenizer(real_data.gpt2_json())).count("<|endoftext|>")) == {}
