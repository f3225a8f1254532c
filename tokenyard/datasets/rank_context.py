"""What batches know beside their plan: which rank takes them, and what the order's samples are in the dataset."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Gives the number in the dataset of a source's first sample, by the source's id and the tokens of a sample.
FirstId = Callable[[str, int | None], int]
#: Gives the tokens of samples by their numbers in the dataset, int64 of the same shape.
RowLengths = Callable[[NDArray[np.int64]], NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class RankContext:
    """Where batches are used.

    Attributes:
        rank: whose they are.
        world_size: data-parallel ranks.
        first_id: see `FirstId`.
        row_lengths: see `RowLengths`; None where samples are windows, all of one length.
        any_window: whether settings leave `window_blocks` open, so that a state's holds.
        other_ids: gives the ids by which states may know the corpora as well, each with the one in the plan.
    """

    rank: int
    world_size: int
    first_id: FirstId
    row_lengths: RowLengths | None = None
    any_window: bool = False
    other_ids: Callable[[], Mapping[str, str]] = dict

    def lengths(self, sample_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tokens of rows. Raises TypeError where samples are no rows."""
        if self.row_lengths is None:
            raise TypeError("samples that are windows have no lengths of their own")
        return self.row_lengths(sample_ids)
