"""What is measured: each figure's name, unit, and meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A kind of figure. ``more_is_better``: else less is."""

    key: str
    title: str
    unit: str
    more_is_better: bool
    meaning: str


_COLD = "; nothing of the files in the page cache"
_ALL = (
    Metric(
        key="size",
        title="size on disk",
        unit="bytes",
        more_is_better=False,
        meaning="all files of the corpus, row indexes and manifest among them",
    ),
    Metric(
        key="ratio",
        title="compression ratio",
        unit="x",
        more_is_better=True,
        meaning="bytes of the tokens and fields as they lie in memory, divided by the size on disk",
    ),
    Metric(
        key="write",
        title="write",
        unit="Mtok/s",
        more_is_better=True,
        meaning="from memory to the disk, one process: encode, digest, checksum and fsync",
    ),
    Metric(
        key="sequential",
        title="sequential read",
        unit="Mtok/s",
        more_is_better=True,
        meaning="all rows in order with all their fields, as a conversion reads them, one thread",
    ),
    Metric(
        key="loader",
        title="shuffled read",
        unit="Mtok/s",
        more_is_better=True,
        meaning="training batches by build_dataloader as it comes: block shuffle, input_ids and labels as int64 "
        "tensors, two threads; each block is decoded once an epoch",
    ),
    Metric(
        key="inline",
        title="shuffled read, no threads",
        unit="Mtok/s",
        more_is_better=True,
        meaning="the same with num_threads 0, in the training loop's own thread",
    ),
    Metric(
        key="gather",
        title="gather of rows",
        unit="Mtok/s",
        more_is_better=True,
        meaning="batches of rows from all over the corpus by gather_rows, no tensors",
    ),
    Metric(
        key="row_p50",
        title="one row, median",
        unit="µs",
        more_is_better=False,
        meaning="corpus[i] for random i, each in another shard, no decoded block kept, as in a corpus far larger than "
        "memory",
    ),
    Metric(
        key="row_p99",
        title="one row, 99th percentile",
        unit="µs",
        more_is_better=False,
        meaning="the same; of 100 rows, the slowest",
    ),
    Metric(
        key="open",
        title="open",
        unit="ms",
        more_is_better=False,
        meaning="open_corpus in a fresh process",
    ),
    Metric(
        key="first_batch",
        title="first batch",
        unit="ms",
        more_is_better=False,
        meaning="from settings to the first batch of tensors, in a fresh process that has torch; what the first use "
        "loads or compiles is counted",
    ),
    Metric(
        key="memory",
        title="memory",
        unit="MB",
        more_is_better=False,
        meaning="the most over an epoch of shuffled reading, pages of files not counted, beyond what the imports took",
    ),
    Metric(
        key="first_batch_cold",
        title="first batch, cold",
        unit="ms",
        more_is_better=False,
        meaning="the same once all code has run" + _COLD,
    ),
    Metric(
        key="sequential_cold",
        title="sequential read, cold",
        unit="Mtok/s",
        more_is_better=True,
        meaning="all rows in order, once" + _COLD,
    ),
    Metric(
        key="loader_cold",
        title="shuffled read, cold",
        unit="Mtok/s",
        more_is_better=True,
        meaning="an epoch of training batches" + _COLD,
    ),
    Metric(
        key="row_p50_cold",
        title="one row, median, cold",
        unit="µs",
        more_is_better=False,
        meaning="corpus[i] for random i" + _COLD + " at first",
    ),
    Metric(
        key="row_p99_cold",
        title="one row, 99th percentile, cold",
        unit="µs",
        more_is_better=False,
        meaning="the same; of 100 rows, the slowest",
    ),
)
#: By key, in the order in which they are shown.
METRICS: Mapping[str, Metric] = MappingProxyType({metric.key: metric for metric in _ALL})


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One value a round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return float(np.median(self.values))

    @property
    def low(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest value."""
        return max(self.values)


def figures_of(rounds: Sequence[Mapping[str, float]]) -> dict[str, Figure]:
    """The figures that every round has, each with a value a round."""
    first = rounds[0] if rounds else {}
    return {
        key: Figure(values=tuple(float(found[key]) for found in rounds))
        for key in first
        if all(key in found for found in rounds)
    }
