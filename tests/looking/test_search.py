"""Searching rows: the row, the tokens, and how far it went."""

import pytest

from tests.corpora import write_corpus
from tests.real_data import gpt2_json
from tokenyard.errors import ConfigError
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.search import Hit, search

TEXTS = ["nothing here", "the quick brown fox", "漢字 and a fox", "", "foxes"]


@pytest.fixture(scope="module")
def decoder():
    return Decoder.load(str(gpt2_json()))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, decoder):
    rows = [decoder._tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    return write_corpus(tmp_path_factory.mktemp("search") / "c", rows, shard_bytes=8)


def look(corpus, wanted, decoder, first_row=0, max_hits=10, max_tokens=1000):
    return search(corpus, wanted, decoder=decoder, first_row=first_row, max_hits=max_hits, max_tokens=max_tokens)


@pytest.mark.parametrize(("wanted", "rows"), [("fox", [1, 2, 4]), ("k brown f", [1]), ("字 a", [2]), ("FOX", [])])
def test_a_text_is_found_across_the_edges_of_tokens(corpus, decoder, wanted, rows):
    found = look(corpus, wanted, decoder)
    assert [hit.row for hit in found.hits] == rows
    assert found.is_done
    assert found.num_tokens == corpus.num_tokens
    for hit in found.hits:
        tokens = corpus[hit.row].tolist()
        assert wanted in decoder.text(tokens[hit.start : hit.stop])
        assert wanted not in decoder.text(tokens[hit.start + 1 : hit.stop])
        assert wanted not in decoder.text(tokens[hit.start : hit.stop - 1])


def test_ids_are_found_without_a_tokenizer(corpus):
    tokens = corpus[1].tolist()
    found = look(corpus, f"{tokens[1]} {tokens[2]}", None)
    assert found.hits == (Hit(row=1, start=1, stop=3),)
    assert look(corpus, "1 2 3 4 5 6 7 8 9", None).hits == ()


def test_ids_are_not_found_across_rows(corpus):
    last, first = corpus[0].tolist()[-1], corpus[1].tolist()[0]
    assert look(corpus, f"{last} {first}", None).hits == ()


def test_a_search_ends_where_enough_is_found_and_says_where_to_go_on(corpus, decoder):
    found = look(corpus, "fox", decoder, max_hits=1)
    assert ([hit.row for hit in found.hits], found.next_row, found.is_done) == ([1], 2, False)
    assert [hit.row for hit in look(corpus, "fox", decoder, first_row=found.next_row).hits] == [2, 4]


def test_a_search_has_a_bound_in_tokens_but_looks_through_one_row_at_least(corpus, decoder):
    found = look(corpus, "foxes", decoder, max_tokens=3)
    assert (found.hits, found.next_row, found.num_tokens) == ((), 1, len(corpus[0]))
    assert look(corpus, "foxes", decoder, max_tokens=7).num_tokens <= 7


@pytest.mark.parametrize("wanted", ["Hello", "12 x", "-5", " ", "9" * 30])
def test_without_a_tokenizer_something_else_than_ids_is_refused(corpus, wanted):
    with pytest.raises(ConfigError, match=r"without --tokenizer rows are ids, and expected are ids to search for"):
        look(corpus, wanted, None)


def test_an_empty_text_is_refused(corpus, decoder):
    with pytest.raises(ConfigError, match="expected a text to search for, found an empty one"):
        look(corpus, "", decoder)
