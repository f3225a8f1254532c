import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from tokenyard.converters.engines import build_engine, build_truth, limit_threads
from tokenyard.converters.engines.choose import ENGINES
from tokenyard.converters.engines.truth import TransformersEngine
from tokenyard.errors import ConfigError, MissingDependencyError, UnknownTokenizerError

TEXTS = ["", "Hello world", "x" * 3000, "", "漢字 <|endoftext|> é\r\n\0", " "]


@pytest.fixture(params=ENGINES)
def engine_name(request):
    return request.param


@pytest.mark.parametrize("special_text", ["encode", "plain"])
def test_ids_and_lengths_are_flat_arrays_of_the_documented_types(gpt2, engine_name, special_text):
    engine = build_engine(engine_name, gpt2, special_text)
    assert engine.name == engine_name
    found = engine.encode_batch(TEXTS)
    assert (found.ids.dtype, found.lengths.dtype) == (np.uint32, np.int64)
    assert found.lengths.shape == (len(TEXTS),)
    assert found.lengths.sum() == found.ids.shape[0]
    assert found.lengths[[0, 3]].tolist() == [0, 0]
    alone = [engine.encode_batch([text]).ids.tolist() for text in TEXTS]
    assert [ids.tolist() for ids in found.split()] == alone


def test_no_texts_give_no_ids(gpt2, engine_name):
    found = build_engine(engine_name, gpt2).encode_batch([])
    assert (found.ids.shape, found.lengths.shape, found.split()) == ((0,), (0,), [])
    assert (found.ids.dtype, found.lengths.dtype) == (np.uint32, np.int64)


def test_only_empty_texts_give_no_ids(gpt2, engine_name):
    found = build_engine(engine_name, gpt2).encode_batch(["", ""])
    assert (found.ids.tolist(), found.lengths.tolist()) == ([], [0, 0])
    assert (found.ids.dtype, found.lengths.dtype) == (np.uint32, np.int64)


def test_special_text_is_one_id_or_plain_text_as_asked(gpt2, engine_name):
    text = "a<|endoftext|>b"
    assert build_engine(engine_name, gpt2, "encode").encode_batch([text]).ids.tolist() == [64, 50256, 65]
    plain = [64, 27, 91, 437, 1659, 5239, 91, 29, 65]
    assert build_engine(engine_name, gpt2, "plain").encode_batch([text]).ids.tolist() == plain


def test_nothing_is_added_around_a_text(specs):
    # this one's own policy would be [CLS] ... [SEP]
    assert build_truth(specs["minilm"]).encode_batch(["hello"]).ids.tolist() == [7592]


def test_the_truth_is_what_the_tokenizer_object_says(spec):
    engine = build_truth(spec)
    assert engine.uses_backend
    whole = TransformersEngine(spec, "encode", use_backend=False)
    assert engine.encode_batch(TEXTS).ids.tolist() == whole.encode_batch(TEXTS).ids.tolist()
    for text in TEXTS:
        assert engine.encode_batch([text]).ids.tolist() == spec.tokenizer(text, add_special_tokens=False)["input_ids"]


def test_two_engines_of_one_tokenizer_keep_to_their_own_policy(gpt2):
    encode, plain = build_truth(gpt2, "encode"), build_truth(gpt2, "plain")
    for _ in range(2):
        assert encode.encode_batch(["<|endoftext|>"]).ids.tolist() == [50256]
        assert len(plain.encode_batch(["<|endoftext|>"]).ids) == 7


def test_a_slow_tokenizer_is_encoded_by_its_object(slow):
    engine = build_truth(slow)
    assert not engine.uses_backend
    found = engine.encode_batch(["hi</s>", "", "é"])
    assert (found.ids.tolist(), found.lengths.tolist()) == ([107, 108, 1, 198, 172], [3, 0, 2])
    assert build_truth(slow, "plain").encode_batch(["</s>"]).lengths.tolist() == [4]


@pytest.mark.parametrize("name", ["fastokens", "gigatoken"])
def test_an_engine_that_can_not_take_a_tokenizer_says_why(specs, slow, name):
    with pytest.raises(UnknownTokenizerError, match=rf"{name} can't take .*minilm.*: .*(BertNormalizer|WordPiece)"):
        build_engine(name, specs["minilm"])
    with pytest.raises(UnknownTokenizerError, match=rf"{name} needs a tokenizer\.json; .* is a slow tokenizer"):
        build_engine(name, slow)


@pytest.mark.parametrize("name", ["fastokens", "gigatoken"])
def test_an_engine_that_is_not_installed_says_what_to_install(gpt2, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=f"the engine {name} is not installed: pip install {name}"):
        build_engine(name, gpt2)


def test_names_and_policies_that_do_not_exist_are_refused(gpt2):
    with pytest.raises(
        ConfigError, match="engine: expected one of auto, gigatoken, fastokens, transformers; found 'tiktoken'"
    ):
        build_engine("tiktoken", gpt2)
    with pytest.raises(ConfigError, match="special_text: expected one of encode, plain; found 'drop'"):
        build_engine("gigatoken", gpt2, "drop")


@pytest.mark.parametrize("name", ["fastokens", "gigatoken"])
def test_a_broken_tokenizer_json_is_an_error_of_ours_whatever_the_library_raises(gpt2, name):
    spec = replace(gpt2, json='{"version": "1.0", "added_tokens": []}')
    with pytest.raises(UnknownTokenizerError, match=f"{name} can't take"):
        build_engine(name, spec)


def test_threads_are_limited_through_the_environment(monkeypatch):
    monkeypatch.setenv("RAYON_NUM_THREADS", "7")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    limit_threads()
    assert (os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"]) == ("1", "false")
