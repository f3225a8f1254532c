"""The compiled loops that tokens are gathered by: found, copied and cast in one pass, without the GIL.

They read memory by address, which nothing here checks: tables are made of storage blocks that were checked when they
were opened (see `tokenyard.corpus.block_table`).
"""

from typing import Any

from tokenyard.corpus.casts import cast_items, copy_bytes, load_i64
from tokenyard.corpus.compiling import compiled, part_of_loops
from tokenyard.corpus.finding import block_of, last_at_most
from tokenyard.corpus.records import (
    BUFFER,
    DONE,
    FLAT,
    ITEMS,
    KIND,
    NO_LINE,
    OFFSETS,
    OTHER,
    OUTSIDE,
    ROWS,
    STARTS,
    STRIDE,
)

#: See `tokenyard.corpus.compiling`.
PARTS = "a3d7636aadf26c3e"


@part_of_loops
def _run_at(
    begins: Any, slots: Any, records: Any, position: int, block: int, row: int
) -> tuple[int, int, int, int, int]:
    """Where a token of the stream lies: its address, how many lie together from there on, their kind, block and row.

    The kind is -1 where the block is not there. ``block``, ``row``: where it is, or one before; the row below 0 where
    nobody knows, as it also comes back where it takes no search.
    """
    while begins[block + 1] <= position:
        block, row = block + 1, -1
    if slots[block] < 0:
        return 0, 0, -1, block, -1
    record, local = records[slots[block]], position - begins[block]
    kind = record[KIND]
    item, begin = kind & 15, record[BUFFER] + load_i64(record[STARTS])
    if record[FLAT]:
        return begin + local * item, begins[block + 1] - position, kind, block, -1
    if record[ITEMS]:
        row = local // record[ITEMS]
        within = local - row * record[ITEMS]
        return begin + row * record[STRIDE] + within * item, record[ITEMS] - within, kind, block, -1
    offsets = record[OFFSETS]
    local += load_i64(offsets)
    if row < 0:
        row = last_at_most(offsets, record[ROWS] + 1, local)
    while load_i64(offsets + 8 * row + 8) <= local:
        row += 1
    within, run = local - load_i64(offsets + 8 * row), load_i64(offsets + 8 * row + 8) - local
    return record[BUFFER] + load_i64(record[STARTS] + 8 * row) + within * item, run, kind, block, row


@part_of_loops
def _row_at(begins: Any, slots: Any, records: Any, row: int) -> tuple[int, int, int]:
    """The address of a row, its items, and their kind; 0, the block and -1 where that is not there."""
    block = block_of(begins, row)
    slot = slots[block]
    if slot < 0:
        return 0, block, -1
    record, local = records[slot], row - begins[block]
    if record[ITEMS]:
        address = record[BUFFER] + load_i64(record[STARTS]) + local * record[STRIDE]
        return address, record[ITEMS], record[KIND]
    before = load_i64(record[OFFSETS] + 8 * local)
    length = load_i64(record[OFFSETS] + 8 * local + 8) - before
    if record[FLAT]:
        place = load_i64(record[STARTS]) + (before - load_i64(record[OFFSETS])) * (record[KIND] & 15)
    else:
        place = load_i64(record[STARTS] + 8 * local)
    return record[BUFFER] + place, length, record[KIND]


_TABLE = "int64[::1], int64[::1], int64[:, ::1]"


@compiled(f"int64({_TABLE}, int64[::1], int64, int64[::1], int64, int64[:, ::1], int64[:, ::1])")
def windows_as_int64(
    begins: Any,
    slots: Any,
    records: Any,
    starts: Any,
    width: int,
    lines: Any,
    shift: int,
    inputs: Any,
    labels: Any,
) -> int:
    """Copy windows of the token stream as int64, and once more as labels.

    Args:
        begins: int64[blocks + 1], the first token of each block, and the end.
        slots: int64[blocks], the record of each block; negative where it is not there.
        records: int64[records, NUM_COLUMNS].
        starts: int64[n], the first token of each window.
        width: its tokens.
        lines: int64[n], the line of `inputs` and `labels` that each goes to; empty where that is its own number.
        shift: how many tokens labels are ahead of the input.
        inputs: int64[lines, seq_len], of which the first tokens of a window fill as much as there are.
        labels: int64[lines, seq_len], the same from token `shift` on; without lines there are none.

    Returns:
        DONE; OUTSIDE where a window is not within the stream; NO_LINE where it has no line; else a block that is not
        there.
    """
    for i in range(len(starts)):
        if starts[i] < 0 or starts[i] > begins[-1] - width:
            return OUTSIDE
        line = lines[i] if len(lines) else i
        if line < 0 or line >= len(inputs):
            return NO_LINE
    if not len(starts) or not width:
        return DONE
    address, run, kind, block, row = _run_at(begins, slots, records, starts[0], block_of(begins, starts[0]), -1)
    i = done = 0
    while kind >= 0:
        count = min(width - done, run)
        # What follows is found first, so that it is on its way while this is copied.
        to, next_done = i, done + count
        if next_done == width:
            to, next_done, row = i + 1, 0, -1
            block = block_of(begins, starts[min(to, len(starts) - 1)])
        ahead, next_run, next_kind = address, 0, kind
        if to < len(starts):
            position = starts[to] + next_done
            ahead, next_run, next_kind, block, row = _run_at(begins, slots, records, position, block, row)
        line = lines[i] if len(lines) else i
        into = inputs[line]
        fitting = min(count, len(into) - done)
        if fitting > 0:
            cast_items(into[done : done + fitting], address, kind, ahead)
        if len(labels):
            into = labels[line]
            skip = max(0, shift - done)
            fitting = min(count, len(into) + shift - done) - skip
            if fitting > 0:
                first, again = done + skip - shift, address + skip * (kind & 15)
                cast_items(into[first : first + fitting], again, kind, again)
        if to == len(starts):
            return DONE
        i, done, address, run, kind = to, next_done, ahead, next_run, next_kind
    return block


@compiled(f"int64({_TABLE}, int64[::1], int64, int64, uint8[::1])")
def windows_as_stored(begins: Any, slots: Any, records: Any, starts: Any, width: int, item: int, out: Any) -> int:
    """Copy windows as they are stored, one after another.

    Returns as `windows_as_int64`, and OTHER where items are not of ``item`` bytes.
    """
    target = out.ctypes.data
    for i in range(len(starts)):
        position, end = starts[i], starts[i] + width
        if position < 0 or position > begins[-1] - width:
            return OUTSIDE
        block, row = block_of(begins, position), -1
        while position < end:
            address, run, kind, block, row = _run_at(begins, slots, records, position, block, row)
            if kind < 0:
                return block
            if kind & 15 != item:
                return OTHER
            count = min(end - position, run)
            copy_bytes(target, address, count * item)
            target += count * item
            position += count
    return DONE


@compiled(f"int64({_TABLE}, int64[::1], int64[::1])")
def row_offsets(begins: Any, slots: Any, records: Any, rows: Any, offsets: Any) -> int:
    """Write where each row begins, one after another, into ``offsets`` int64[n + 1]. Returns as `windows_as_int64`."""
    offsets[0] = 0
    for i in range(len(rows)):
        if rows[i] < 0 or rows[i] >= begins[-1]:
            return OUTSIDE
        _, length, kind = _row_at(begins, slots, records, rows[i])
        if kind < 0:
            return length
        offsets[i + 1] = offsets[i] + length
    return DONE


@compiled(f"int64({_TABLE}, int64[::1], int64[::1], int64[::1])")
def rows_as_int64(begins: Any, slots: Any, records: Any, rows: Any, offsets: Any, out: Any) -> int:
    """Copy rows as int64, each to ``out`` from its offset on.

    Returns as `windows_as_int64`, and OTHER where a row is not as long as the offsets say.
    """
    if not len(rows):
        return DONE
    if rows[0] < 0 or rows[0] >= begins[-1]:
        return OUTSIDE
    address, length, kind = _row_at(begins, slots, records, rows[0])
    for i in range(len(rows)):
        if kind < 0:
            return length
        if offsets[i + 1] - offsets[i] != length:
            return OTHER
        following = rows[min(i + 1, len(rows) - 1)]
        if following < 0 or following >= begins[-1]:
            return OUTSIDE
        ahead, next_length, next_kind = _row_at(begins, slots, records, following)
        cast_items(out[offsets[i] : offsets[i + 1]], address, kind, ahead)
        address, length, kind = ahead, next_length, next_kind
    return DONE


@compiled(f"int64({_TABLE}, int64[::1], int64[::1], int64, uint8[::1])")
def rows_as_stored(begins: Any, slots: Any, records: Any, rows: Any, offsets: Any, item: int, out: Any) -> int:
    """Copy rows as they are stored; else as `rows_as_int64`, and OTHER where items are not of ``item`` bytes."""
    target = out.ctypes.data
    for i in range(len(rows)):
        if rows[i] < 0 or rows[i] >= begins[-1]:
            return OUTSIDE
        address, length, kind = _row_at(begins, slots, records, rows[i])
        if kind < 0:
            return length
        if offsets[i + 1] - offsets[i] != length or kind & 15 != item:
            return OTHER
        copy_bytes(target + offsets[i] * item, address, length * item)
    return DONE


@compiled(f"int64({_TABLE}, int64[::1], int64, int64[::1], int64, int64, int64, int64[:, ::1], int64[:, ::1])")
def rows_as_lines(
    begins: Any,
    slots: Any,
    records: Any,
    rows: Any,
    width: int,
    lines: Any,
    shift: int,
    fill: int,
    ignored: int,
    inputs: Any,
    labels: Any,
) -> int:
    """Copy rows of one length as int64, each to a line of its own, and once more as labels.

    Args:
        begins: int64[blocks + 1], the first row of each block, and the end.
        slots: int64[blocks], the record of each block; negative where it is not there.
        records: int64[records, NUM_COLUMNS].
        rows: int64[n].
        width: the items of each.
        lines: int64[n], the line of `inputs` and `labels` that each goes to; empty where that is its own number.
        shift: how many tokens labels are ahead of the input.
        fill: what follows a row in `inputs`.
        ignored: what follows it in `labels`.
        inputs: int64[lines, seq_len].
        labels: int64[lines, seq_len]; without lines there are none.

    Returns:
        As `windows_as_int64`, and OTHER where a row has another length, or doesn't fit its line.
    """
    if not len(rows):
        return DONE
    if rows[0] < 0 or rows[0] >= begins[-1]:
        return OUTSIDE
    address, length, kind = _row_at(begins, slots, records, rows[0])
    for i in range(len(rows)):
        if kind < 0:
            return length
        line = lines[i] if len(lines) else i
        if line < 0 or line >= len(inputs):
            return NO_LINE
        into = inputs[line]
        if length != width or length > len(into):
            return OTHER
        following = rows[min(i + 1, len(rows) - 1)]
        if following < 0 or following >= begins[-1]:
            return OUTSIDE
        ahead, next_length, next_kind = _row_at(begins, slots, records, following)
        cast_items(into[:length], address, kind, ahead)
        into[length:] = fill
        if len(labels):
            into = labels[line]
            known = max(0, length - shift)
            again = address + shift * (kind & 15)
            cast_items(into[:known], again, kind, again)
            into[known:] = ignored
        address, length, kind = ahead, next_length, next_kind
    return DONE
