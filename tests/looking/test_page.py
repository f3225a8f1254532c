"""The page: self-contained, true to what was counted, and deaf to what rows hold."""

import re
from importlib.resources import files

import pytest

from tests.bench.test_report import Page, colors, contrast
from tests.corpora import random_rows, write_corpus
from tests.looking.corpora import ESCAPED, HOSTILE, hostile, made_page
from tests.real_data import gpt2_json
from tokenyard.datasets.order_map import MapCell, OrderMap
from tokenyard.looking.contents import LookSettings, look_into
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.difference import first_difference
from tokenyard.looking.page import corpus_page


def cell(sample, place):
    return MapCell(samples=(sample,), sources=("a",), places=(place,), is_padding=(False,))


ORDER = OrderMap(
    about="Some run.", command="tokenyard order", cells=((cell(70, 0.1), cell(71, 0.5)), (cell(72, 0.9), cell(73, 1)))
)


def test_the_page_fetches_nothing_and_runs_nothing(tmp_path):
    text, _ = made_page(tmp_path, two=True, order=ORDER)
    assert not re.search(r"https?:|//|@import|url\(|<script|<link|<img|\bsrc=|\bon\w+=", text)
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)


def test_what_rows_hold_is_shown_and_does_not_act(tmp_path):
    corpus = hostile(tmp_path / "c")
    name = f"<b>{HOSTILE}"
    text = corpus_page([look_into(corpus, name, LookSettings(), None)], command=f"tokenyard report {name}")
    assert not re.search(r"<script|<img|<b>", text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert ESCAPED in text
    assert "alert(1)" in Page(text).text


def test_tokens_of_a_hostile_vocabulary_do_not_act(tmp_path):
    decoder = Decoder.load(str(gpt2_json()))
    ids = decoder._tokenizer(HOSTILE, add_special_tokens=False)["input_ids"]
    corpus = write_corpus(tmp_path / "c", [ids])
    text = corpus_page([look_into(corpus, "c", LookSettings(), decoder)], command="tokenyard report c")
    assert not re.search("<script|<img|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    shown = Page(text).text
    assert "␛" in shown
    assert "<U+202E>" in shown


def test_totals_lengths_and_padding_are_those_of_the_corpus(tmp_path):
    text, (found,) = made_page(tmp_path)
    shown = Page(text).text
    corpus = found.corpus
    padding = sum(12 - int(corpus.row(i)["document_lengths"].sum()) for i in range(len(corpus)))
    assert f"{padding / corpus.num_tokens:.3%}"[:4] in shown
    assert f"of tokens are padding, {padding:,}" in shown
    for told in (f"{len(corpus):,} rows, {corpus.num_tokens:,} tokens", corpus.digest, "packed, 12 tokens a row"):
        assert told in shown
    assert re.search(r"9 – 16\s+40 \(100 %\)", shown)
    assert f"all {corpus.num_tokens:,} tokens of 40 rows" in shown
    assert "tokenyard report data/packed" in shown


def test_a_sample_is_said_to_be_one(tmp_path):
    corpus = write_corpus(tmp_path / "c", random_rows(1, 500, 100))
    found = look_into(corpus, "c", LookSettings(tokens=2000), None)
    assert not found.is_whole
    assert f"a sample of {corpus.num_tokens:,} tokens" in Page(corpus_page([found], command="")).text
    assert look_into(corpus, "c", LookSettings(tokens=2000, full=True), None).is_whole


def test_rows_show_their_documents_and_what_is_masked(tmp_path):
    found = look_into(hostile(tmp_path / "c"), "c", LookSettings(), None)
    text = corpus_page([found], command="")
    assert re.findall(r'class="(t [^"]*)" title="(\d+)"', text)[:4] == [
        ("t a masked", "1"),
        ("t b masked", "2"),
        ("t a", "3"),
        ("t b special", "9"),
    ]
    assert "masked by loss_mask" in Page(text).text
    packed, _ = made_page(tmp_path)
    assert 'class="document">document ' in packed
    assert 'class="document">padding: ' in packed


def test_the_order_is_a_table_of_steps_and_ranks(tmp_path):
    text, _ = made_page(tmp_path, order=ORDER)
    shown = re.sub(r"\s+", " ", Page(text).text)
    assert "step rank 0 rank 1 0 70 71 1 72 73" in shown
    assert "sample 72 of a, at 90% of it" in text


def test_two_corpora_stand_side_by_side_with_what_differs(tmp_path):
    text, (mine, other) = made_page(tmp_path, two=True)
    shown = re.sub(r"\s+", " ", Page(text).text)
    assert "They don't have the same number of rows" in shown
    assert "format npy parquet differs" in shown
    assert f"rows {len(mine.corpus)} {len(other.corpus)} differs" in shown
    assert "token dtype uint16 uint16 same" in shown
    assert mine.corpus.digest in shown
    assert other.corpus.digest in shown


def test_the_first_row_that_differs_is_told(tmp_path):
    rows = random_rows(1, 20, 9)
    mine = write_corpus(tmp_path / "a", rows)
    other = write_corpus(tmp_path / "b", [*rows[:7], [1, 2, 3], *rows[8:]], format="mds")
    found = [look_into(corpus, corpus.path.name, LookSettings(), None) for corpus in (mine, other)]
    page = corpus_page(found, command="", difference=first_difference(mine, other, None))
    assert "Row 7 is the first that differs" in Page(page).text


@pytest.mark.parametrize("rows", [[], [[]]])
def test_a_corpus_without_rows_or_tokens_has_a_page_too(tmp_path, rows):
    found = look_into(write_corpus(tmp_path / "c", rows), "c", LookSettings(), None)
    assert "No tokens were counted." in Page(corpus_page([found], command="")).text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground(scheme):
    found = {}
    for package, name in (("tokenyard.display", "page.css"), ("tokenyard.looking.page", "style.css")):
        light, _, rest = (files(package) / name).read_text().partition("prefers-color-scheme: dark")
        found |= colors(light) if scheme == "light" else colors(light) | colors(rest)
    for ink, ground in (("token-ink", "token-a"), ("token-ink", "token-b"), ("soft", "card")):
        assert contrast(found[ink], found[ground]) >= 4.5, (ink, ground)
    for mark in ("mark", "same", "not"):
        assert contrast(found[mark], found[f"{mark}-ground"]) >= 4.5, mark
    assert contrast(found["other"], found["card"]) >= 3
