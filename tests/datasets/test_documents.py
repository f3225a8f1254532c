import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import write_corpus
from tokenyard.datasets.documents import Documents, row_starts_in_windows, starts_of_lengths
from tokenyard.errors import DataError

S = 4


@given(starts=st.lists(st.lists(st.booleans(), min_size=S, max_size=S), min_size=1, max_size=6))
def test_documents_cover_the_batch_without_a_gap_and_restart_at_each_start(starts):
    mask = np.array(starts)
    documents = Documents.of(mask)
    cumulative = documents.cu_seqlens()
    assert cumulative.dtype == np.int32
    assert cumulative[0] == 0
    assert cumulative[-1] == mask.size
    assert (np.diff(cumulative) > 0).all()
    assert documents.max_seqlen() == np.diff(cumulative).max()
    for line, positions, ids in zip(mask, documents.position_ids(), documents.document_ids(None), strict=True):
        position, document = 0, 0
        for column in range(S):
            if column and line[column]:
                position, document = 0, document + 1
            assert (positions[column], ids[column]) == (position, document)
            position += 1


def test_a_batch_without_tokens_has_no_documents():
    documents = Documents.of(np.zeros((2, 0), bool))
    assert documents.cu_seqlens().tolist() == [0]
    assert documents.max_seqlen() == 0
    assert documents.document_ids(None).shape == (2, 0)


@given(lengths=st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=5), spare=st.integers(0, 2))
def test_lengths_of_documents_say_where_each_begins(lengths, spare):
    totals = np.array([sum(row) + spare for row in lengths])
    width = int(totals.max()) + 1
    expected = np.zeros((len(lengths), width), bool)
    for row, documents in enumerate(lengths):
        place = 0
        for length in [*documents, spare]:
            if length:
                expected[row, place] = True
            place += length
    flat = np.array([length for row in lengths for length in row], np.uint32)
    offsets = np.cumsum([0, *map(len, lengths)])
    assert np.array_equal(starts_of_lengths(flat, offsets, totals, width), expected)


def test_documents_longer_than_their_row_are_refused():
    with pytest.raises(DataError, match="row 1 of the batch: its documents count 5 tokens, it holds 4"):
        starts_of_lengths(np.array([4, 2, 3], np.uint32), np.array([0, 1, 3]), np.array([4, 4]), 4)


@pytest.mark.parametrize("shard_bytes", [1, 60, 1 << 20])
def test_rows_are_found_in_windows_across_shards_and_past_empty_rows(tmp_path, shard_bytes):
    lengths = [0, 3, 0, 0, 5, 1, 0, 7, 2, 0, 0, 1, 4, 0]
    corpus = write_corpus(tmp_path / "c", [[1] * n for n in lengths], shard_bytes=shard_bytes)
    first_tokens = {sum(lengths[:i]) for i, n in enumerate(lengths) if n}
    for width in (1, 2, 6, sum(lengths)):
        starts = np.arange(sum(lengths) - width + 1)
        expected = [[start + column in first_tokens for column in range(width)] for start in starts.tolist()]
        assert row_starts_in_windows(corpus, starts, width).tolist() == expected
