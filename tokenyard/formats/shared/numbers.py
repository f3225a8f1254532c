"""Numbers as text and back, many at once: ids and lists of numbers in JSONL and CSV."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenyard.rows import Array, Offsets

_DIGITS = b"0123456789"
_INT64_MAX = 2**63 - 1


def format_numbers(values: Array) -> pa.Array:
    """Each number as text: whole numbers in digits, bool as true or false, floats as Python writes their float64.

    A float32 is written as the float64 of the same value, so that whoever reads it as either has exactly that value.
    """
    if values.dtype.kind == "f":
        return pa.array(list(map(repr, values.astype(np.float64).tolist())), pa.string())
    return pc.cast(pa.array(values), pa.string())


def join_lists(texts: pa.Array, offsets: Offsets, separator: str) -> pa.Array:
    """One text a row: its items, joined."""
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), texts)
    return pc.binary_join(lists, separator)


def parse_lists(cells: Sequence[bytes], separator: bytes) -> tuple[Array, Offsets] | None:
    """Rows of whole numbers: flat int64, and offsets. The empty text is an empty row.

    None unless all is plain: digits, one separator between numbers, no sign, no zero in front. The caller then looks at
    each cell for itself.
    """
    text = separator.join(filter(None, cells))
    if text.translate(None, _DIGITS + separator) or separator * 2 in text:
        return None
    if text[:1] == separator or text[-1:] == separator:
        return None
    flat = np.fromstring(text, np.int64, sep=separator.decode()) if text else np.empty(0, np.int64)
    if len(text) - max(len(flat) - 1, 0) != _count_digits(flat):
        return None
    # Between two rows that are not empty stands one separator, as between two numbers of a row.
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == separator[0])
    sizes = np.array([len(cell) for cell in cells], np.int64)
    last = np.cumsum(sizes + (sizes > 0))
    offsets = np.zeros(len(cells) + 1, np.int64)
    offsets[1:] = np.where(last > 0, np.searchsorted(ends, last - 1) + 1, 0)
    return flat, offsets


def _count_digits(values: Array) -> int:
    """Digits of all numbers; -1 when one may have been cut to what int64 holds."""
    if not len(values):
        return 0
    high = int(values.max())
    if high == _INT64_MAX:
        return -1
    return len(values) + sum(int(np.count_nonzero(values >= 10**k)) for k in range(1, len(str(high))))
