"""The tokens of a batch that comes from several sources."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.cached import cached_property
from tokenyard.datasets.samples import DenseFrame, Frame

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FramePart:
    """What one source gives.

    Attributes:
        places: int64[k], where its samples stand in the batch.
        frame: their tokens.
        pad_id: what fills its lines up.
    """

    places: Int64Array
    frame: Frame
    pad_id: int


@dataclass(frozen=True, kw_only=True)
class MixedFrame:
    """See `Frame`.

    Attributes:
        parts: what each source gives, one at least.
        num_samples: samples in all.
        pads: whether lengths are told.
    """

    parts: Sequence[FramePart]
    num_samples: int
    pads: bool

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns: those of the widest part."""
        return self.num_samples, max(part.frame.shape[1] for part in self.parts)

    @cached_property
    def lengths(self) -> Int64Array | None:
        """int64[n], the tokens of each sample."""
        if not self.pads:
            return None
        lengths = np.empty(self.num_samples, np.int64)
        for part in self.parts:
            lengths[part.places] = part.frame.shape[1] if part.frame.lengths is None else part.frame.lengths
        return lengths

    @property
    def tokens(self) -> NDArray[Any]:
        """[n, width]."""
        return self._dense.tokens

    @property
    def is_token(self) -> NDArray[np.bool_] | None:
        """Where a token stands."""
        return self._dense.is_token if self.pads else None

    @cached_property
    def _dense(self) -> DenseFrame:
        """All lines in one array, in the widest dtype of the parts."""
        tokens = np.empty(self.shape, _common_integer([part.frame.tokens.dtype for part in self.parts]))
        for part in self.parts:
            width = part.frame.shape[1]
            tokens[part.places, :width] = part.frame.tokens
            tokens[part.places, width:] = part.pad_id
        return DenseFrame(tokens=tokens, lengths=self.lengths)

    def copy_to(
        self, inputs: Int64Array, labels: Int64Array | None, *, shift: int, lines: Int64Array | None = None
    ) -> None:
        """Write the tokens as they are trained on."""
        if any(part.frame.shape[1] != self.shape[1] for part in self.parts):
            self._dense.copy_to(inputs, labels, shift=shift, lines=lines)
            return
        for part in self.parts:
            to = part.places if lines is None else lines[part.places]
            part.frame.copy_to(inputs, labels, shift=shift, lines=to)


def parts_of(frame: Frame) -> Sequence[FramePart]:
    """Return what the sources gave for a frame. Raises TypeError for a frame of a single source."""
    if not isinstance(frame, MixedFrame):
        raise TypeError(f"expected the frame of several sources, found a {type(frame).__name__}")
    return frame.parts


def _common_integer(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the narrowest integer dtype that holds all. For uint64 beside signed ones numpy finds only floats."""
    common = np.result_type(*dtypes)
    return common if common.kind in "iu" else np.dtype(np.int64)
