"""The compiled loops that write where documents begin in a batch, and number its tokens by it.

Marks are uint8[n, width], 1 at the first token of each document. Memory is written once, and read once where marks are:
what these loops cost is what fresh memory of that size costs.
"""

from typing import Any

from tokenyard.corpus.casts import load_i64
from tokenyard.corpus.compiling import compiled
from tokenyard.corpus.numbering import number_span

#: See `tokenyard.corpus.compiling`.
PARTS = "a3d7636aadf26c3e"


@compiled("UniTuple(int64, 2)(uint8[:, ::1], int64[::1], int32[:, ::1], int32[:, ::1], int32[::1])")
def number_documents(marks: Any, lengths: Any, positions: Any, numbers: Any, ends: Any) -> tuple[int, int]:
    """Write the place of each token in its document, and which of its sample's documents that is.

    A sample begins a document whatever its first mark says.

    Args:
        marks: uint8[n, at least S]; only the first S columns are read.
        lengths: int64[n], the tokens of each sample, after which there is padding; or none.
        positions: int32[n, S], the place of each token in its document, from 0 on.
        numbers: int32[n, S], its document, numbered from 0 in each sample; -1 at padding.
        ends: int32[n * S + 1] or less where there are no more documents: 0, and the end of each document, counted in
            the batch seen as one line.

    Returns:
        How many documents there are, and the tokens of the longest.
    """
    n, width = positions.shape
    count = longest = 0
    ends[0] = 0
    if width == 0:
        return count, longest
    for i in range(n):
        line = marks.ctypes.data + i * marks.shape[1]
        begin = number = 0
        while begin < width:
            end = begin + 1
            while end + 8 <= width and load_i64(line + end) == 0:  # marks are few: eight at a time
                end += 8
            while end < width and marks[i, end] == 0:
                end += 1
            number_span(positions[i, begin:end], numbers[i, begin:end], number)
            longest = max(longest, end - begin)
            count += 1
            ends[count] = i * width + end
            begin, number = end, number + 1
        if len(lengths):
            padding = numbers[i, lengths[i] :]
            for j in range(len(padding)):
                padding[j] = -1
    return count, longest


@compiled("UniTuple(int64, 2)(int64[:, ::1], int64, int32[:, ::1], int32[:, ::1], int32[::1])")
def number_after(tokens: Any, eos: int, positions: Any, numbers: Any, ends: Any) -> tuple[int, int]:
    """Do what `number_documents` does, where a document begins after each id ``eos``, and with each sample.

    Args:
        tokens: int64[n, S], without padding.
        eos: the id that documents end with.
        positions: as there.
        numbers: as there.
        ends: as there.

    Returns:
        As there.
    """
    n, width = tokens.shape
    count = longest = 0
    ends[0] = 0
    for i in range(n):
        begin = number = 0
        while begin < width:
            end = begin
            while end + 64 <= width:  # ends are few: a loop without a way out compares many at a time
                some, found = tokens[i, end : end + 64], 0
                for j in range(len(some)):
                    found += some[j] == eos
                if found:
                    break
                end += 64
            while end < width and tokens[i, end] != eos:
                end += 1
            end = min(width, end + 1)
            number_span(positions[i, begin:end], numbers[i, begin:end], number)
            longest = max(longest, end - begin)
            count += 1
            ends[count] = i * width + end
            begin, number = end, number + 1
    return count, longest


@compiled("int64(int64[::1], int64[::1], int64[::1], uint8[:, ::1])")
def mark_lengths(lengths: Any, offsets: Any, row_lengths: Any, marks: Any) -> int:
    """Mark where documents begin in rows that say the length of each of theirs.

    Args:
        lengths: lengths of documents, flat; those of no length begin nowhere.
        offsets: int64[n + 1] into `lengths`: the documents of each row.
        row_lengths: int64[n], the tokens of each row, at most `width`; what is left past its last document is another.
        marks: uint8[n, width], of zeros.

    Returns:
        -1, or the first row whose documents are longer than it is, or have lengths below 0.
    """
    for i in range(len(row_lengths)):
        place = 0
        for k in range(offsets[i], offsets[i + 1]):
            length = lengths[k]
            if length < 0 or length > row_lengths[i] - place:
                return i
            if length:
                marks[i, place] = 1
            place += length
        if place < row_lengths[i]:
            marks[i, place] = 1
    return -1
