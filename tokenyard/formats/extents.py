"""The extent table: where each row's tokens lie in the bytes of one storage block.

Above it no code knows the format. A raw shard that is mapped is one block, whose buffer is the map; read by ranges, it
is many. A compressed shard or a Parquet row group is one whose buffer was decoded. The same table serves every field of
fixed-width items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.cached import cached_property
from tokenyard.errors import DataError
from tokenyard.formats import runs
from tokenyard.rows import Array, Offsets


@dataclass(frozen=True, kw_only=True)
class Extents:
    """Rows of one storage block.

    ``buffer``: uint8[bytes], contiguous. ``starts``: int64[k], the byte where each row begins. ``lengths``: int64[k],
    its items, each of ``dtype`` (any byte order). ``mapped``: the buffer is a map of a file and costs no memory of its
    own.
    """

    buffer: NDArray[np.uint8]
    starts: Offsets
    lengths: Offsets
    dtype: np.dtype[np.generic]
    mapped: bool

    def check(self, where: str) -> Extents:
        """This table, if every row lies inside the buffer. Raises DataError that names ``where`` and the row."""
        check_runs(self.starts, self.lengths, self.dtype, len(self.buffer), where)
        return self

    @property
    def memory_bytes(self) -> int:
        """What the table costs: its rows' places, and the buffer unless that is a map."""
        return self.starts.nbytes + self.lengths.nbytes + (0 if self.mapped else self.buffer.nbytes)

    @cached_property
    def address(self) -> int:
        """The memory address of the buffer's first byte."""
        return int(self.buffer.__array_interface__["data"][0])

    @cached_property
    def is_flat(self) -> bool:
        """Whether each row begins where the one before it ends, so that a run of rows is one run of bytes."""
        ends = self.starts[:-1] + self.lengths[:-1] * self.dtype.itemsize
        return bool(np.array_equal(self.starts[1:], ends))

    def items(self, start: int, stop: int) -> Array:
        """The items of rows start .. stop, flat; shares the buffer's memory where the rows lie together."""
        if stop <= start:
            return np.empty(0, self.dtype)
        size = self.dtype.itemsize
        if self.is_flat:
            first = int(self.starts[start])
            last = int(self.starts[stop - 1]) + int(self.lengths[stop - 1]) * size
            return self.buffer[first:last].view(self.dtype)
        return runs.take(self.buffer, self.starts[start:stop], self.lengths[start:stop] * size).view(self.dtype)


def check_runs(
    starts: Offsets,
    lengths: Offsets,
    dtype: np.dtype[np.generic],
    num_bytes: int,
    where: str,
    first_row: int | None = None,
) -> None:
    """Raise DataError unless all runs of items lie inside ``num_bytes``, with the row counted in shard or block."""
    # Counted in items from the end: a product of damaged numbers could wrap around and look small.
    room = (num_bytes - starts) // dtype.itemsize
    bad = (starts < 0) | (starts > num_bytes) | (lengths < 0) | (lengths > room)
    if bad.any():
        i = int(np.argmax(bad))
        row = f"row {i} of the block" if first_row is None else f"row {first_row + i}"
        raise DataError(
            f"{where}: {row} would be {int(lengths[i])} items from byte {int(starts[i])} on, outside its {num_bytes} "
            "bytes; the shard or its index is damaged"
        )
