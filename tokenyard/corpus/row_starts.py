"""The compiled loops that tell where rows begin in windows of the token stream, by row indexes alone.

See `tokenyard.corpus.kernels` of what they read and return.
"""

from typing import Any

from tokenyard.corpus.compiling import compiled
from tokenyard.corpus.finding import block_of, place_in_row
from tokenyard.corpus.numbering import number_span
from tokenyard.corpus.records import DONE, OUTSIDE

#: See `tokenyard.corpus.compiling`.
PARTS = "a3d7636aadf26c3e"

_TABLE = "int64[::1], int64[::1], int64[:, ::1]"


@compiled(f"int64({_TABLE}, int64[::1], int64, uint8[:, ::1])")
def row_starts_in_windows(begins: Any, slots: Any, records: Any, starts: Any, width: int, marks: Any) -> int:
    """Set 1 in ``marks`` [n, width] at each token that is the first of a row. Returns as `windows_as_int64`."""
    for i in range(len(starts)):
        if starts[i] < 0 or starts[i] > begins[-1] - width:
            return OUTSIDE
        block, row, done = block_of(begins, starts[i]), -1, 0
        while done < width:
            within, rest, block, row = place_in_row(begins, slots, records, starts[i] + done, block, row)
            if not rest:
                return block
            if not within:
                marks[i, done] = 1
            done += rest
    return DONE


@compiled(f"int64({_TABLE}, int64[::1], int32[:, ::1], int32[:, ::1], int32[::1], int64[::1])")
def number_rows_in_windows(
    begins: Any, slots: Any, records: Any, starts: Any, positions: Any, numbers: Any, ends: Any, told: Any
) -> int:
    """Write the place of each token in its row, counted in its window, and which of the window's rows that is.

    Args:
        begins: int64[blocks + 1], the first token of each block, and the end.
        slots: int64[blocks], the record of each block; negative where it is not there.
        records: int64[records, NUM_COLUMNS].
        starts: int64[n], the first token of each window.
        positions: int32[n, width], the place of each token, from 0 on in each row and at the begin of each window.
        numbers: int32[n, width], its row, numbered from 0 in each window.
        ends: int32[n * width + 1] or less where there are no more rows: 0, and the end of each, in the windows seen as
            one line.
        told: int64[2], how many rows there are, and the tokens of the longest.

    Returns:
        As `windows_as_int64`.
    """
    width = positions.shape[1]
    count = longest = 0
    ends[0] = 0
    for i in range(len(starts)):
        if starts[i] < 0 or starts[i] > begins[-1] - width:
            return OUTSIDE
        block, row, done, number = block_of(begins, starts[i]), -1, 0, 0
        while done < width:
            _, rest, block, row = place_in_row(begins, slots, records, starts[i] + done, block, row)
            if not rest:
                return block
            end = min(width, done + rest)
            number_span(positions[i, done:end], numbers[i, done:end], number)
            longest = max(longest, end - done)
            count += 1
            ends[count] = i * width + end
            done, number = end, number + 1
    told[0], told[1] = count, longest
    return DONE
