"""Samples of several sources under one numbering: what batches of a mixture are gathered from."""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.mixed_frame import FramePart, MixedFrame, parts_of
from tokenyard.datasets.samples import DenseFrame, Frame, Samples

Int64Array = NDArray[np.int64]


class Part(Samples, Protocol):
    """The samples of one source.

    Attributes:
        pads: whether frames tell lengths, since lines may end in padding.
        pad_id: the token of that padding.
    """

    pads: bool
    pad_id: int


class MixedSamples:
    """See `Samples`. The samples of source k are numbered from `first[k]` on; these numbers are the *flat ids*.

    Each source is asked once for all of its samples in a batch. Lines of different widths are padded to the widest of
    the batch, each with its source's padding. Whether frames tell lengths depends on the sources, never on the batch.

    Args:
        parts: the samples of each source, at least one, all of the same mode.
        fields: the names of each source's fields. A source without a field that another one has counts as all ones.
    """

    number_documents = None

    def __init__(self, parts: Sequence[Part], fields: Sequence[Container[str]]) -> None:
        self._parts = tuple(parts)
        self._fields = tuple(fields)
        self.first: Int64Array = np.cumsum([0, *(part.num_samples for part in parts)], dtype=np.int64)
        self.num_samples = int(self.first[-1])
        widths = {part.seq_len for part in parts}
        self.seq_len = widths.pop() if len(widths) == 1 else None
        self._pads = self.seq_len is None or any(part.pads for part in parts)

    def locate(self, flat_ids: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the source of each sample, and its number there; both in the shape of `flat_ids`."""
        # The last source that begins there: one without samples begins where the next one does.
        sources = np.searchsorted(self.first, flat_ids, side="right") - 1
        return sources, flat_ids - self.first[sources]

    def check_boundaries(self) -> None:
        """Raise ConfigError where it is not known of some source where documents begin."""
        for part in self._parts:
            part.check_boundaries()

    def frame(self, sample_ids: Int64Array) -> Frame:
        """Return the tokens of samples, in the widest dtype and the widest lines of their sources."""
        parts = [
            FramePart(places=places, frame=self._parts[k].frame(ids), pad_id=self._parts[k].pad_id)
            for k, places, ids in self._by_source(sample_ids)
        ]
        return MixedFrame(parts=parts, num_samples=len(sample_ids), pads=self._pads)

    def input_width(self, frame: Frame) -> int:
        """Return the columns of the input, which the mode tells: the same for every source."""
        return self._parts[0].input_width(frame)

    def items_beside(self, sample_ids: Int64Array, frame: Frame, field: str) -> NDArray[Any]:
        """Return a field's items, 0 at padding; ones from sources that don't have it."""

        def items_of(k: int, ids: Int64Array, part: Frame) -> NDArray[Any]:
            if field in self._fields[k]:
                return self._parts[k].items_beside(ids, part, field)
            return np.ones(part.shape, np.uint8) if part.is_token is None else part.is_token.astype(np.uint8)

        return self._scattered(sample_ids, frame, items_of)

    def document_starts(self, sample_ids: Int64Array, frame: Frame) -> NDArray[np.bool_]:
        """Return where documents begin, as each source tells it."""
        return self._scattered(sample_ids, frame, lambda k, ids, part: self._parts[k].document_starts(ids, part))

    def _by_source(self, sample_ids: Int64Array) -> Iterator[tuple[int, Int64Array, Int64Array]]:
        """Yield each source of a batch, its places there, and the numbers of its samples; one even for no samples."""
        sources, ids = self.locate(sample_ids)
        for k in sorted(set(sources.tolist())) or [0]:
            places = np.flatnonzero(sources == k)
            yield k, places, ids[places]

    def _scattered(
        self, sample_ids: Int64Array, frame: Frame, ask: Callable[[int, Int64Array, Frame], NDArray[Any]]
    ) -> NDArray[Any]:
        """Return what each source says of its lines of a frame, in the frame's shape."""
        found = []
        for (k, places, ids), part in zip(self._by_source(sample_ids), parts_of(frame), strict=True):
            whole = part.frame
            if whole.shape[1] != frame.shape[1] or frame.lengths is not whole.lengths:
                lengths = None if frame.lengths is None else frame.lengths[places]
                whole = DenseFrame(tokens=frame.tokens[places], lengths=lengths)
            found.append((places, ask(k, ids, whole)))
        result = np.empty(frame.shape, np.result_type(*(values.dtype for _, values in found)))
        for places, values in found:
            result[places] = values
        return result
