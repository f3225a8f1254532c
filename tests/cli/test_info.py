"""The command info: what it counts, what it says it didn't, and what corpora say that must not act."""

import json

import numpy as np
import pytest

from tests.cli.commands import run
from tests.corpora import random_rows, write_corpus
from tests.looking.corpora import HOSTILE
from tests.real_data import gpt2_json
from tests.runs import packed_rows
from tokenyard import CorpusWriter, Schema
from tokenyard.errors import ConfigError
from tokenyard.looking import lengths

ROWS = random_rows(4, 300, 50)
EVERY = [len(row) for row in ROWS]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("info") / "c", ROWS, shard_bytes=500, eos_token_id=ROWS[1][0]).path


def info(*arguments):
    return json.loads(run("info", *arguments, "--json"))


def test_lengths_of_all_rows_come_from_indexes_without_a_token(corpus):
    found = info(corpus)
    assert found["lengths_of"] == "all rows"
    assert (found["shortest_row"], found["longest_row"]) == (min(EVERY), max(EVERY))
    assert (found["median_row"], found["mean_row"]) == (np.median(EVERY), pytest.approx(np.mean(EVERY)))
    assert found["empty_rows"] == EVERY.count(0)
    assert found["length_quantiles"]["95%"] == pytest.approx(np.quantile(EVERY, 0.95))
    assert sum(b["rows"] for b in found["lengths"]) == len(ROWS)
    assert found["tokens_counted"] == 0
    assert found["special_tokens"][0]["count"] is None
    assert found["not_counted"] == [
        "special tokens and padding: no token was read (--sample N reads N shards, --full all)"
    ]


def test_many_shards_are_sampled_and_said_to_be(corpus, monkeypatch):
    monkeypatch.setattr(lengths, "INDEXED_SHARDS", 5)
    found = info(corpus)
    assert found["lengths_of"] == f"5 of {found['shards']} shards, evenly spread"
    assert found["not_counted"][0] == (
        f"lengths in {found['shards'] - 5} of {found['shards']} shards (--full counts all)"
    )
    assert f"not counted: {found['not_counted'][0]}" in run("info", corpus)


def test_special_tokens_have_their_share_of_all_tokens(corpus):
    found = info(corpus, "--full")
    count = sum(row.count(ROWS[1][0]) for row in ROWS)
    assert found["special_tokens"] == [
        {"id": ROWS[1][0], "role": "eos", "token": None, "count": count, "share": count / sum(EVERY)}
    ]
    assert (found["tokens_counted"], found["not_counted"]) == (sum(EVERY), [])


def test_a_sample_of_shards_says_what_it_left_out(corpus):
    found = info(corpus, "--sample", 3)
    assert 0 < found["tokens_counted"] < sum(EVERY)
    assert found["lengths_of"].startswith("3 of ")
    assert found["not_counted"][1] == (
        f"special tokens and padding in {sum(EVERY) - found['tokens_counted']:,} tokens (--full reads all)"
    )


def test_padding_of_packed_rows_is_counted(tmp_path):
    corpus = packed_rows(tmp_path / "c", "npy", pad=True)
    padding = sum(12 - int(corpus.row(i)["document_lengths"].sum()) for i in range(len(corpus)))
    assert info(corpus.path, "--full")["padding_tokens"] == padding
    assert info(corpus.path)["padding_tokens"] is None
    assert f"padding tokens  {padding:,} of 480 (" in run("info", corpus.path, "--full")


def test_marks_of_a_tokenizer_have_their_text(tmp_path):
    write_corpus(tmp_path / "c", [[15496, 50256]], eos_token_id=50256)
    found = info(tmp_path / "c", "--full", "--tokenizer", gpt2_json())["special_tokens"]
    assert [(mark["id"], mark["token"], mark["share"]) for mark in found] == [(50256, "<|endoftext|>", 0.5)]
    assert "50256  eos   <|endoftext|>  50 %, 1 times" in run("info", tmp_path / "c", "--full", "-t", gpt2_json())


def test_people_see_a_histogram(corpus):
    said = run("info", corpus)
    assert "row lengths\n  quantiles: 5% " in said
    assert f"33 - 64  {'#' * 40}" in said


def test_what_a_manifest_says_does_not_act_on_the_terminal(tmp_path):
    schema = Schema(token_dtype="uint16", tokenizer=HOSTILE)
    with CorpusWriter(tmp_path / "c", format="npy", schema=schema, provenance={HOSTILE: {"x": HOSTILE}}) as writer:
        writer.write(np.arange(3))
    said = run("info", tmp_path / "c")
    assert said.count("␛[31mred␇") == 3
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert info(tmp_path / "c")["tokenizer"] == HOSTILE


def test_two_ways_to_count_are_refused(corpus):
    with pytest.raises(ConfigError, match="--sample and --full ask for different things; give one of them"):
        run("info", corpus, "--sample", 1, "--full")
