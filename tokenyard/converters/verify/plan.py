"""A corpus cut into runs of rows to verify, by what the manifest says alone: an index may be what is damaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.digest import DIGEST_BLOCK_ROWS
from tokenyard.rows import Offsets

#: Bytes of tokens in a run, about. Where shards don't begin at a digest block, a run decodes some of the one behind.
_RUN_BYTES = 128 << 20
#: Runs of a corpus, at most: each is a task that waits in memory.
_MAX_RUNS = 50_000
_ROW_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Run:
    """Rows ``start`` .. ``stop`` from a digest block's begin on, and shards ``first`` .. ``end``, which begin there."""

    start: int
    stop: int
    first: int
    end: int

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.stop - self.start


def plan_runs(corpus: Corpus, run_bytes: int = _RUN_BYTES) -> list[Run]:
    """Runs that together have every row and every shard once; cut where a shard begins, or within a large one."""
    begins = corpus.shard_row_starts
    itemsize = np.dtype(corpus.schema.token_dtype).itemsize
    # Bytes before each shard; floats, since what a forged index promises may go past 64 bits.
    ends = corpus.shard_token_starts * float(itemsize) + begins * float(_ROW_BYTES)
    run_bytes = max(run_bytes, int(ends[-1]) // _MAX_RUNS)
    cuts = [0]
    for shard in range(len(begins) - 1):
        first, last = int(begins[shard]), int(begins[shard + 1])
        if first == last:
            continue
        size = max(1, int(ends[shard + 1] - ends[shard]))
        rows = max(1, (last - first) * run_bytes // size // DIGEST_BLOCK_ROWS) * DIGEST_BLOCK_ROWS
        for row in range(-(-first // DIGEST_BLOCK_ROWS) * DIGEST_BLOCK_ROWS, last, rows):
            before = int(ends[shard]) + size * (row - first) // (last - first)
            if row > cuts[-1] and before - _bytes_before(begins, ends, cuts[-1]) >= run_bytes:
                cuts.append(row)
    stops = [*cuts[1:], int(begins[-1])]
    firsts = np.searchsorted(begins[:-1], cuts).tolist()
    last_of = [*firsts[1:], len(begins) - 1]
    return [Run(start=a, stop=b, first=f, end=e) for a, b, f, e in zip(cuts, stops, firsts, last_of, strict=True)]


def _bytes_before(begins: Offsets, ends: NDArray[np.float64], row: int) -> float:
    return float(np.interp(row, begins, ends))
