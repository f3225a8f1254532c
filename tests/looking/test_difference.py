"""The first row that differs, in any two formats, and how far it was looked for."""

import pytest

from tests.corpora import random_rows, write_corpus
from tokenyard.looking.difference import first_difference

ROWS = random_rows(5, 3000, 10)
KINDS = [f"kind {i % 7}" for i in range(len(ROWS))]


def corpora(tmp_path, rows=None, kinds=None, mine="npy", other="parquet"):
    return (
        write_corpus(tmp_path / "a", ROWS, format=mine, kind=("string", KINDS)),
        write_corpus(tmp_path / "b", rows or ROWS, format=other, kind=("string", kinds or KINDS)),
    )


def without_digest(corpus):
    object.__setattr__(corpus.manifest, "digests", None)
    return corpus


def test_equal_digests_say_that_all_rows_are_the_same(tmp_path):
    found = first_difference(*corpora(tmp_path), max_tokens=None)
    assert (found.row, found.by_digest) == (None, True)
    assert found.told == "The content digests are equal: all rows are the same."


def test_rows_are_compared_where_a_digest_is_not_known(tmp_path):
    mine, other = corpora(tmp_path)
    found = first_difference(without_digest(mine), other, max_tokens=None)
    assert (found.row, found.compared, found.by_digest) == (None, 3000, False)
    assert found.told == "All 3,000 rows are the same."


@pytest.mark.parametrize("row", [0, 1023, 1024, 2999])
def test_the_first_row_whose_tokens_differ_is_named(tmp_path, row):
    rows = [[*r, 7] if i >= row else r for i, r in enumerate(ROWS)]
    found = first_difference(*corpora(tmp_path, rows), max_tokens=None)
    assert (found.row, found.compared) == (row, row)
    assert f"Row {row:,} is the first that differs: " in found.told


def test_a_field_that_differs_is_named(tmp_path):
    kinds = [*KINDS[:1500], "another", *KINDS[1501:]]
    found = first_difference(*corpora(tmp_path, kinds=kinds), max_tokens=None)
    assert (found.row, found.how) == (1500, "field 'kind' is 'kind 2' here, 'another' there")


def test_comparing_has_a_bound_and_says_so(tmp_path):
    rows = [*ROWS[:2999], [1, 2, 3]]
    found = first_difference(*corpora(tmp_path, rows), max_tokens=2000)
    assert (found.row, found.compared) == (None, 1024)
    assert "The first 1,024 of 3,000 rows are the same; the others were not compared (--full compares all" in found.told


def test_other_numbers_of_rows_are_not_compared_row_by_row(tmp_path):
    mine = write_corpus(tmp_path / "a", ROWS)
    assert first_difference(mine, write_corpus(tmp_path / "b", ROWS[1:]), max_tokens=None) is None
