"""Gathers: the items of many rows, or of many windows of the token stream, found and copied all at once.

A compiled loop finds and copies a batch by a table of the blocks it lies in; `Tables` sees to it that they are there.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # see _IMPORTING
import logging  # noqa: F401  # see _IMPORTING
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tokenyard.corpus.records import DONE, NO_LINE
from tokenyard.corpus.shards import OpenShards
from tokenyard.corpus.tables import Tables
from tokenyard.errors import DataError
from tokenyard.rows import Array, Offsets

#: Items that memory is taken for before it is known that there are so many.
_MAX_GUESSED_ITEMS = 1 << 22
_INT64 = np.dtype(np.int64)
_NO_LABELS = np.empty((0, 0), np.int64)
_IN_ORDER = np.empty(0, np.int64)

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]


#: Held while the loops are imported; by a thread that forks too.
_IMPORTING = threading.RLock()

if hasattr(os, "register_at_fork"):
    # A process forked while another thread imports them would wait for that import for ever. What numba's import would
    # register for forks is imported above: a fork that waits here would release those locks, having acquired none.
    os.register_at_fork(
        before=_IMPORTING.acquire, after_in_parent=_IMPORTING.release, after_in_child=_IMPORTING.release
    )


def _compiled_loops() -> tuple[Any, Any]:
    """The modules of the loops; numba is imported where somebody gathers."""
    with _IMPORTING:
        from tokenyard.corpus import kernels, row_starts

        return kernels, row_starts


class Gatherer:
    """Gathers from the shards of one corpus, in one process. Safe in several threads."""

    def __init__(self, shards: OpenShards) -> None:
        self._kernels, self._row_starts = _compiled_loops()
        self._shards = shards
        self._rows = Tables(shards, shards.row_starts, "rows")
        self._tokens = Tables(shards, shards.token_starts, "tokens")
        self._row_length: dict[str, int] = {}

    def rows(self, rows: Int64Array, field: str, dtype: DTypeLike | None) -> tuple[Array, Offsets]:
        """See ``Corpus.gather_rows``."""
        rows, stored = _positions(rows), self._shards.dtype(field)
        wanted = stored if dtype is None else np.dtype(dtype)
        # Rows are likely as long as the last ones, where these had one length.
        guess = self._row_length.get(field, 0)
        if 0 < guess * len(rows) <= _MAX_GUESSED_ITEMS:
            found = self._rows_at(rows, np.arange(0, (len(rows) + 1) * guess, guess), field, stored, wanted)
            if found is not None:
                return found
        offsets = np.empty(len(rows) + 1, np.int64)
        self._rows.run(field, rows, 1, lambda t: self._kernels.row_offsets(*t.arrays, rows, offsets))
        lengths = np.diff(offsets)
        self._row_length[field] = int(lengths[0]) if len(rows) and bool((lengths == lengths[0]).all()) else 0
        found = self._rows_at(rows, offsets, field, stored, wanted)
        if found is None:
            raise RuntimeError(f"{self._shards.where}: rows changed their lengths while they were read")
        return found

    def _rows_at(
        self, rows: Int64Array, offsets: Offsets, field: str, stored: np.dtype[Any], wanted: np.dtype[Any]
    ) -> tuple[Array, Offsets] | None:
        """Rows one after another, if their offsets are these."""
        kernels, size = self._kernels, int(offsets[-1])
        if wanted != _INT64 or stored.kind == "f":
            out: Array = np.empty(size, stored)
            flat = out.view(np.uint8)
            table, status = self._rows.run(
                field, rows, 1, lambda t: kernels.rows_as_stored(*t.arrays, rows, offsets, stored.itemsize, flat)
            )
            # Asked last: another thread may have entered a block of another dtype in the meantime.
            if status == DONE and table.as_stored:
                return out if wanted == stored else out.astype(wanted), offsets
        as_int64 = np.empty(size, np.int64)
        _, status = self._rows.run(field, rows, 1, lambda t: kernels.rows_as_int64(*t.arrays, rows, offsets, as_int64))
        if status != DONE:
            return None
        return _from_int64(as_int64, stored, wanted), offsets

    def copy_rows(
        self,
        rows: Int64Array,
        width: int,
        lines: Int64Array | None,
        inputs: Int64Array,
        labels: Int64Array | None,
        *,
        shift: int,
        fill: int,
        ignored: int,
    ) -> None:
        """See ``Corpus.copy_rows``."""
        rows = _positions(rows)
        line_of, into = _targets(rows, lines, inputs, labels, shift)
        _, status = self._rows.run(
            "tokens",
            rows,
            1,
            lambda t: self._kernels.rows_as_lines(*t.arrays, rows, width, line_of, shift, fill, ignored, *into),
        )
        if status == NO_LINE:
            raise _no_line(line_of, inputs)
        if status != DONE:
            raise self._of_other_length(rows, width, inputs)

    def _of_other_length(self, rows: Int64Array, width: int, inputs: Int64Array) -> DataError:
        offsets = np.empty(len(rows) + 1, np.int64)
        self._rows.run("tokens", rows, 1, lambda t: self._kernels.row_offsets(*t.arrays, rows, offsets))
        lengths = np.diff(offsets)
        bad = int(np.argmax((lengths != width) | (lengths > inputs.shape[1])))
        return DataError(
            f"{self._shards.where}, row {rows[bad]}: {lengths[bad]} tokens, expected {width}, in lines of "
            f"{inputs.shape[1]}"
        )

    def windows(self, starts: Int64Array, length: int, field: str, dtype: DTypeLike | None) -> Array:
        """See ``Corpus.gather_windows``."""
        starts, stored = _positions(starts), self._shards.dtype(field)
        wanted = stored if dtype is None else np.dtype(dtype)
        if length < 0:
            raise ValueError(f"windows of {length} tokens")
        if wanted != _INT64 or stored.kind == "f":
            out: Array = np.empty((len(starts), length), stored)
            flat = out.reshape(-1).view(np.uint8)
            table, status = self._tokens.run(
                field,
                starts,
                length,
                lambda t: self._kernels.windows_as_stored(*t.arrays, starts, length, stored.itemsize, flat),
            )
            # Asked last: another thread may have entered a block of another dtype in the meantime.
            if status == DONE and table.as_stored:
                return out.astype(wanted, copy=False)
        as_int64 = np.empty((len(starts), length), np.int64)
        self.copy_windows(starts, None, as_int64, None, shift=0, field=field)
        return _from_int64(as_int64, stored, wanted)

    def copy_windows(
        self,
        starts: Int64Array,
        lines: Int64Array | None,
        inputs: Int64Array,
        labels: Int64Array | None,
        *,
        shift: int,
        field: str = "tokens",
    ) -> None:
        """See ``Corpus.copy_windows``."""
        starts = _positions(starts)
        width = inputs.shape[1] + (0 if labels is None else shift)
        line_of, into = _targets(starts, lines, inputs, labels, shift)
        _, status = self._tokens.run(
            field,
            starts,
            width,
            lambda t: self._kernels.windows_as_int64(*t.arrays, starts, width, line_of, shift, *into),
        )
        if status == NO_LINE:
            raise _no_line(line_of, inputs)

    def row_starts_in_windows(self, starts: Int64Array, length: int) -> NDArray[np.bool_]:
        """See ``Corpus.row_starts_in_windows``."""
        starts = _positions(starts)
        marks = np.zeros((len(starts), length), np.bool_)
        flags = marks.view(np.uint8)
        self._tokens.run(
            "tokens", starts, length, lambda t: self._row_starts.row_starts_in_windows(*t.arrays, starts, length, flags)
        )
        return marks

    def number_rows_in_windows(
        self, starts: Int64Array, positions: Int32Array, numbers: Int32Array, ends: Int32Array
    ) -> tuple[int, int]:
        """See ``Corpus.number_rows_in_windows``."""
        starts, told = _positions(starts), np.zeros(2, np.int64)
        if not len(starts) == len(positions) or positions.shape != numbers.shape or len(ends) <= positions.size:
            raise ValueError(
                f"expected positions and numbers of one line a window, and an end for each token; found {len(starts)} "
                f"windows, positions {positions.shape}, numbers {numbers.shape}, {len(ends)} ends"
            )
        self._tokens.run(
            "tokens",
            starts,
            positions.shape[1],
            lambda t: self._row_starts.number_rows_in_windows(*t.arrays, starts, positions, numbers, ends, told),
        )
        return int(told[0]), int(told[1])


def _from_int64(items: Int64Array, stored: np.dtype[Any], wanted: np.dtype[Any]) -> Array:
    """Items of dtype ``stored`` as ``wanted``; those of uint64 that int64 doesn't hold came as its same 64 bits."""
    return (items.view(stored) if stored == np.uint64 else items).astype(wanted, copy=False)


def _targets(
    places: Int64Array, lines: Int64Array | None, inputs: Int64Array, labels: Int64Array | None, shift: int
) -> tuple[Int64Array, tuple[Int64Array, Int64Array]]:
    """The line of each place, and inputs and labels, as compiled loops take them.

    Raises ValueError for what doesn't fit together.
    """
    if (
        (lines is None and len(places) > len(inputs))
        or (lines is not None and len(lines) != len(places))
        or (labels is not None and labels.shape != inputs.shape)
        or shift < 0
    ):
        raise ValueError(
            f"expected one line a sample, and labels of the shape of inputs; found {len(places)} samples, "
            f"{'no' if lines is None else len(lines)} lines, inputs {inputs.shape}, labels "
            f"{None if labels is None else labels.shape}, shift {shift}"
        )
    line_of = _IN_ORDER if lines is None else _positions(lines)
    return line_of, (inputs, _NO_LABELS if labels is None else labels)


def _no_line(lines: Int64Array, inputs: Int64Array) -> IndexError:
    return IndexError(f"lines {lines.min()} .. {lines.max()} are not all within the {len(inputs)} of inputs")


def _positions(values: Any) -> Int64Array:
    """``values`` as int64[n]. Raises IndexError for anything but whole numbers."""
    if type(values) is np.ndarray and values.dtype == _INT64 and values.ndim == 1 and values.flags.carray:
        return values
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise IndexError(f"positions are a flat array of whole numbers, not {array.ndim}-dimensional {array.dtype}")
    array = np.ascontiguousarray(array, np.int64)
    return array if array.flags.writeable else array.copy()  # compiled loops are told that arrays can be written
