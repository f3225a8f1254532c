from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import write_corpus
from tokenyard.datasets.documents import document_tensors, numbered_tensors, starts_after, starts_of_lengths
from tokenyard.datasets.spans import number_after
from tokenyard.errors import DataError

EOS = 7


def told_slowly(mask, lengths, width):
    """What `document_tensors` tells, a token after the other."""
    positions, numbers, ends, longest = [], [], [0], 0
    for line, length in zip(mask.tolist(), lengths, strict=True):
        position, number = -1, 0
        positions.append([])
        numbers.append([])
        for column in range(width):
            position += 1
            if column and line[column]:
                position, number = 0, number + 1
                ends.append(ends[-1] + positions[-1][-1] + 1)
            positions[-1].append(position)
            numbers[-1].append(number if column < length else -1)
            longest = max(longest, position + 1)
        ends += [ends[-1] + position + 1] * (width > 0)
    return {"position_ids": positions, "document_ids": numbers, "cu_seqlens": ends, "max_seqlen": longest}


@given(
    marks=st.lists(st.sets(st.integers(0, 70)), min_size=1, max_size=5),
    width=st.integers(0, 70),
    spare=st.integers(0, 9),
    pads=st.booleans(),
    data=st.data(),
)
def test_positions_and_documents_begin_again_at_each_mark(marks, width, spare, pads, data):
    mask = np.array([[column in line for column in range(width + spare)] for line in marks])
    lengths = [data.draw(st.integers(0, width)) if pads else width for _ in marks]
    told = document_tensors(mask, np.array(lengths) if pads else None, width)
    assert {name: tensor.tolist() for name, tensor in told.items()} == told_slowly(mask, lengths, width)
    assert {name: tensor.dtype for name, tensor in told.items()} == {
        "position_ids": torch.int32,
        "document_ids": torch.int32,
        "cu_seqlens": torch.int32,
        "max_seqlen": torch.int32,
    }
    assert told["position_ids"].shape == told["document_ids"].shape == (len(marks), width)


@given(ends=st.lists(st.sets(st.integers(0, 200)), min_size=1, max_size=3), width=st.integers(0, 200))
def test_documents_found_by_their_last_ids_are_those_that_marks_tell(ends, width):
    tokens = np.array([[EOS if column in line else 1 for column in range(width)] for line in ends], np.int64)
    tokens = tokens.reshape(len(ends), width)
    number = partial(number_after, tokens, EOS)
    found, expected = (
        numbered_tensors(number, len(ends), width),
        document_tensors(starts_after(tokens, EOS), None, width),
    )
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in expected.items()
    }


def test_marks_are_taken_from_a_part_of_a_mask():
    mask = np.zeros((3, 8), bool)
    mask[1, 3] = True
    assert document_tensors(mask[:, 1:6], None, 5)["cu_seqlens"].tolist() == [0, 5, 7, 10, 15]


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


@pytest.mark.parametrize(
    ("marks", "lengths", "width"), [((2, 3), None, 4), ((2, 4), [4], 4), ((2, 4), [4, 4, 4], 4), ((0, 3), None, 4)]
)
def test_no_memory_is_read_past_the_marks_or_the_lengths(marks, lengths, width):
    with pytest.raises(ValueError, match=rf"expected marks for 4 tokens .* found marks \({marks[0]}, {marks[1]}\)"):
        document_tensors(np.zeros(marks, bool), None if lengths is None else np.array(lengths), width)


@pytest.mark.parametrize(
    ("lengths", "offsets", "row_lengths"),
    [([5], [0, 1], [5]), ([], [0, 0], [5]), ([1], [0, 1, 2], [4, 4]), ([1], [0, 1], [4, 4])],
)
def test_no_memory_is_written_past_a_row_or_read_past_its_documents(lengths, offsets, row_lengths):
    with pytest.raises(ValueError, match="expected rows of at most 4 tokens, and documents for each; found"):
        starts_of_lengths(np.array(lengths, np.int64), np.array(offsets), np.array(row_lengths), 4)


@pytest.mark.parametrize(
    ("positions", "numbers", "ends"), [((2, 4), (2, 4), 9), ((1, 4), (1, 3), 9), ((1, 4), (1, 4), 4)]
)
def test_no_memory_is_written_past_numbers_of_rows(tmp_path, positions, numbers, ends):
    corpus = write_corpus(tmp_path / "c", [[1] * 5])
    arrays = [np.empty(shape, np.int32) for shape in (positions, numbers, ends)]
    message = rf"expected positions and numbers of one line a window, .* found 1 windows, positions \({positions[0]}, "
    with pytest.raises(ValueError, match=message):
        corpus.number_rows_in_windows(np.array([0]), *arrays)


def test_numbers_of_rows_outside_the_corpus_are_refused(tmp_path):
    corpus = write_corpus(tmp_path / "c", [[1] * 5])
    arrays = [np.empty(shape, np.int32) for shape in ((1, 4), (1, 4), 5)]
    with pytest.raises(IndexError, match=r"windows of 4 tokens from 2 \.\. 2 are not all within the 5 tokens"):
        corpus.number_rows_in_windows(np.array([2]), *arrays)


def test_documents_longer_than_their_row_are_refused():
    with pytest.raises(DataError, match="row 1 of the batch: its documents count 5 tokens, it holds 4"):
        starts_of_lengths(np.array([4, 2, 3], np.uint32), np.array([0, 1, 3]), np.array([4, 4]), 4)
    with pytest.raises(DataError, match="row 0 of the batch: one of its documents counts -1 tokens, it holds 4"):
        starts_of_lengths(np.array([2, -1]), np.array([0, 2]), np.array([4]), 4)


@pytest.mark.parametrize("shard_bytes", [1, 60, 1 << 20])
def test_rows_are_found_in_windows_across_shards_and_past_empty_rows(tmp_path, shard_bytes):
    lengths = [0, 3, 0, 0, 5, 1, 0, 7, 2, 0, 0, 1, 4, 0]
    corpus = write_corpus(tmp_path / "c", [[1] * n for n in lengths], shard_bytes=shard_bytes)
    first_tokens = {sum(lengths[:i]) for i, n in enumerate(lengths) if n}
    for width in (1, 2, 6, sum(lengths)):
        starts = np.arange(sum(lengths) - width + 1)
        expected = [[start + column in first_tokens for column in range(width)] for start in starts.tolist()]
        assert corpus.row_starts_in_windows(starts, width).tolist() == expected
