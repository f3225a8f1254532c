"""Rows to look at: documents apart, masks told, marks named, and nothing forged breaks it."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.corpora import write_corpus
from tests.real_data import gpt2_json
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.rows import documents, marks, mask_of, show_row
from tokenyard.looking.shown import told_value
from tokenyard.manifest import Layout

PADDED = Layout(kind="packed", seq_len=8, lengths_field="lengths", pad_token_id=0)


def cut(corpus, row=0):
    values = corpus.row(row)
    tokens = values.pop("tokens")
    return [(s.title, s.start, s.stop) for s in documents(corpus, tokens, values)]


def shown(corpus, row=0, max_tokens=100, **options):
    return show_row(corpus, row, max_tokens=max_tokens, decoder=None, special=marks(corpus, None), **options)


def test_documents_of_packed_rows_are_those_of_their_lengths_and_the_rest_is_padding(tmp_path):
    rows = [[1, 2, 3, 4, 5, 0, 0, 0]]
    corpus = write_corpus(tmp_path / "c", rows, layout=PADDED, lengths=("uint32[]", [[2, 0, 3]]))
    assert cut(corpus) == [
        ("document 0: 2 tokens", 0, 2),
        ("document 2: 3 tokens", 2, 5),
        ("padding: 3 tokens", 5, 8),
    ]
    whole = write_corpus(
        tmp_path / "d", rows, layout=replace(PADDED, pad_token_id=None), lengths=("uint32[]", [[2, 3]])
    )
    assert [stretch[0] for stretch in cut(whole)][-1] == "document 2: 3 tokens"


def test_documents_of_packed_rows_without_lengths_end_at_eos(tmp_path):
    layout = Layout(kind="packed", seq_len=6)
    corpus = write_corpus(tmp_path / "c", [[1, 9, 2, 3, 9, 4]], layout=layout, eos_token_id=9)
    assert [(start, stop) for _, start, stop in cut(corpus)] == [(0, 2), (2, 5), (5, 6)]
    assert cut(write_corpus(tmp_path / "d", [[1, 9, 2]], eos_token_id=9)) == [(None, 0, 3)]


@pytest.mark.parametrize("lengths", [[2**31, 2**31], [3, 900], [], [0, 0]])
def test_lengths_that_are_not_those_of_the_row_cut_nothing_outside_of_it(tmp_path, lengths):
    corpus = write_corpus(tmp_path / "c", [[1] * 8], layout=PADDED, lengths=("uint32[]", [lengths]))
    stretches = cut(corpus)
    assert (stretches[0][1], stretches[-1][2]) == (0, 8)
    assert all(a[2] == b[1] for a, b in pairwise(stretches))


def test_negative_lengths_cut_nothing_either(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1] * 8], layout=PADDED, lengths=("int64[]", [[5, -9, 3]]))
    assert [stretch[1:] for stretch in cut(corpus)] == [(0, 5), (5, 8)]


def test_a_mask_is_a_field_of_noughts_and_ones_or_labels_beside_the_tokens(tmp_path):
    corpus = write_corpus(
        tmp_path / "c",
        [[1, 2, 3]] * 2,
        flags=("bool[]", [[True, True, False]] * 2),
        labels=("int64[]", [[-100, 5, -100]] * 2),
        loss_mask=("uint8[]", [[0, 1, 1], [2, 0, 0]]),
        other=("uint8[]", [[1], [1]]),
    )
    for row, name, counts in ((0, "loss_mask", [False, True, True]), (1, "flags", [True, True, False])):
        values = corpus.row(row)
        values.pop("tokens")
        found, mask = mask_of(corpus, 3, values)
        assert (found, mask.tolist()) == (name, counts)
    assert mask_of(corpus, 3, {"labels": np.array([-100, 5, -100])})[1].tolist() == [False, True, False]
    assert mask_of(corpus, 3, {"other": np.array([1], np.uint8)}) is None
    cells = shown(corpus).parts[0].cells
    assert [cell.is_masked for cell in cells] == [True, False, False]
    assert (shown(corpus).mask, "loss_mask" in shown(corpus).fields) == ("loss_mask", False)


def test_marks_have_the_names_of_corpus_and_tokenizer(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1] * 8], layout=PADDED, eos_token_id=7, lengths=("uint32[]", [[8]]))
    assert marks(corpus, None) == {7: "eos", 0: "pad"}
    decoder = Decoder.load(str(gpt2_json()))
    decoder.eos_id, decoder.pad_id, decoder.special = 7, 7, {7: "<eos>", 8: "<tool>"}
    assert marks(corpus, decoder) == {7: "eos, pad", 0: "pad", 8: "added"}
    assert [
        cell.is_special for cell in shown(write_corpus(tmp_path / "d", [[7, 1]], eos_token_id=7)).parts[0].cells
    ] == [
        True,
        False,
    ]


def test_what_is_not_shown_of_a_long_row_is_counted(tmp_path):
    corpus = write_corpus(tmp_path / "c", [list(range(100))])
    assert (shown(corpus, max_tokens=30).before, shown(corpus, max_tokens=30).after) == (0, 70)
    found = shown(corpus, max_tokens=20, found=(90, 92))
    assert (found.before, found.after) == (80, 0)
    assert [cell.text for cell in found.parts[0].cells if cell.is_found] == ["90", "91"]


def test_the_place_where_the_second_document_begins_is_shown_when_asked(tmp_path):
    layout = Layout(kind="packed", seq_len=100, lengths_field="lengths")
    corpus = write_corpus(tmp_path / "c", [list(range(100))], layout=layout, lengths=("uint32[]", [[60, 40]]))
    found = shown(corpus, max_tokens=20, at_edge=True)
    assert (found.before, [part.cells[0].text for part in found.parts]) == (50, ["50", "60"])
    assert shown(corpus, max_tokens=20).before == 0


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.arange(30), "[" + " ".join(map(str, range(20))) + " ...] (30 values)"),
        ("a\x1b[31m\n", r"'a\x1b[31m\n'"),
        ("\u202etxt.exe", r"'\u202etxt.exe'"),
        (b"\x07", r"b'\x07'"),
        (1.5, "1.5"),
        (None, "None"),
    ],
)
def test_values_are_told_in_one_line_in_which_nothing_acts(value, told):
    assert told_value(value) == told


def test_a_long_text_is_cut_and_its_length_told():
    told = told_value("x" * 10_000)
    assert len(told) < 250
    assert told.endswith("... (10,000 long)")
