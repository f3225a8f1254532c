"""Some rows of a batch, in any order, in new memory: each is copied at once, by one compiled loop for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tokenyard.rows import Array, Column, Offsets, RowBatch

Rows = NDArray[np.int64]


def take(batch: RowBatch, rows: Rows) -> RowBatch:
    """The rows of a batch with these numbers, int64[n], in their order."""
    tokens, offsets = _take_items(batch.tokens, batch.offsets, rows)
    return RowBatch(
        tokens=tokens, offsets=offsets, fields={name: _take_values(c, rows) for name, c in batch.fields.items()}
    )


def _take_values(column: Column, rows: Rows) -> Column:
    valid = None if column.valid is None else column.valid[rows]
    if column.offsets is None:
        return Column(type=column.type, values=column.values[rows], valid=valid)
    values, offsets = _take_items(column.values, column.offsets, rows)
    return Column(type=column.type, values=values, offsets=offsets, valid=valid)


def _take_items(values: Array, offsets: Offsets, rows: Rows) -> tuple[Array, Offsets]:
    """Runs of items as Arrow's binary values, each of which is copied at once."""
    size = values.itemsize
    runs = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, _buffer(offsets * size), _buffer(values)]
    )
    _, starts, data = runs.take(pa.array(rows)).buffers()
    taken = np.frombuffer(starts, np.int64, len(rows) + 1) // size
    items: NDArray[Any] = np.frombuffer(data, values.dtype, int(taken[-1])) if data else np.empty(0, values.dtype)
    return items, taken


def _buffer(array: Array) -> Any:
    return pa.py_buffer(np.ascontiguousarray(array).view(np.uint8))
