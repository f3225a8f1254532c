"""Ids as text: edges of tokens are kept, and the pieces of a row make its text again."""

import pytest

from tests.real_data import anthropic_json, deepseek_json, gpt2_json, minilm_json
from tokenyard.looking.decoding import Decoder

TEXTS = ["Hello world, don't\n\n\tstop  1234567", "漢字とかな 🙂👩‍👩‍👧 עברית", "naïve café ﬁ", " leading and trailing "]


@pytest.fixture(
    scope="module", params=[gpt2_json, anthropic_json, deepseek_json], ids=["gpt2", "anthropic", "deepseek"]
)
def decoder(request):
    return Decoder.load(str(request.param()))


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_make_the_text_of_the_row_and_take_every_id_once(decoder, text):
    ids = decoder._tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces = decoder.pieces(ids)
    assert "".join(piece for _, piece in pieces) == decoder.text(ids)
    assert sum(count for count, _ in pieces) == len(ids)
    assert "\ufffd" not in "".join(piece for _, piece in pieces)


def test_a_character_of_several_tokens_is_one_piece():
    decoder = Decoder.load(str(gpt2_json()))
    ids = decoder._tokenizer("a漢b", add_special_tokens=False)["input_ids"]
    assert [text for _, text in decoder.pieces(ids)] == ["a", "漢", "b"]
    assert [count for count, _ in decoder.pieces(ids)][1] > 1


def test_half_a_character_is_shown_token_by_token():
    decoder = Decoder.load(str(gpt2_json()))
    first, *_ = decoder._tokenizer("漢", add_special_tokens=False)["input_ids"]
    assert decoder.pieces([first, first, 64]) == [(1, "\ufffd"), (1, "\ufffd"), (1, "a")]


def test_ids_that_the_tokenizer_has_not_have_no_text():
    decoder = Decoder.load(str(gpt2_json()))
    assert decoder.pieces([15496, 60000, 2**40, -5, 995]) == [(1, "Hello"), (1, ""), (1, ""), (1, ""), (1, " world")]
    assert decoder.text([15496, 60000, 995]) == "Hello world"


def test_words_of_a_wordpiece_keep_the_spaces_between_them():
    decoder = Decoder.load(str(minilm_json()))
    ids = decoder._tokenizer("unbelievable tokenizers rock", add_special_tokens=False)["input_ids"]
    pieces = [text for _, text in decoder.pieces(ids)]
    assert "".join(pieces) == "unbelievable tokenizers rock"
    assert " rock" in pieces


def test_special_and_added_tokens_are_known_by_their_ids():
    decoder = Decoder.load(str(deepseek_json()))
    assert len(decoder.special) > 1000
    number, name = next(iter(decoder.special.items()))
    assert decoder.pieces([number]) == [(1, name)]
