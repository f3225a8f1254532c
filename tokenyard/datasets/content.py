"""What a batch holds before its labels are made: what transforms are handed, and what they give back."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.samples import Frame

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of n samples.

    Attributes:
        frame: their tokens, [n, width].
        loss_mask: bool[n, width], true at tokens that may be labels; None when all may.
        document_starts: bool[n, width], true at the first token of each document; None when nobody asks.
        labels: int64[n, input width] that are taken as they are, in the samples that `has_labels`; None when none has.
        has_labels: bool[n]; None when none has.
    """

    frame: Frame
    loss_mask: Mask | None = None
    document_starts: Mask | None = None
    labels: NDArray[np.int64] | None = None
    has_labels: Mask | None = None
