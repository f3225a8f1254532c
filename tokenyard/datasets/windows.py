"""Samples of `concat`: windows over the stream of all tokens, across rows and shards."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.datasets.documents import row_starts_in_windows
from tokenyard.datasets.samples import DEFAULT_SEQ_LEN, Frame, Labels, num_windows, window_starts, window_width
from tokenyard.errors import ConfigError


class Windows:
    """See `Samples`."""

    def __init__(self, corpus: Corpus, seq_len: int | None, labels: Labels) -> None:
        if corpus.layout.pad_token_id is not None:
            raise ConfigError(
                f"mode: {corpus.folder.path} is packed in rows that end in padding, which windows of mode concat would "
                "train on; use mode rows, where a packed row is a sample"
            )
        self.seq_len: int = seq_len or DEFAULT_SEQ_LEN
        self.num_samples = num_windows(corpus.num_tokens, self.seq_len, labels)
        self._corpus = corpus
        self._width = window_width(self.seq_len, labels)

    def check_boundaries(self) -> None:
        """Raise ConfigError where it is not known in which rows documents begin."""
        if self._corpus.layout.kind == "packed":
            raise ConfigError(
                f"boundaries and mask_boundaries: {self._corpus.folder.path} is packed, so a document may go on from "
                "one row to the next, and windows of mode concat can't tell; use mode rows, where a packed row is a "
                "sample, or the corpus of documents that was packed"
            )

    def frame(self, sample_ids: NDArray[np.int64]) -> Frame:
        """Return the tokens of samples."""
        return Frame(tokens=self.items(sample_ids, "tokens"))

    def input_width(self, frame: Frame) -> int:
        """Return the columns of the input."""
        del frame
        return self.seq_len

    def items_beside(self, sample_ids: NDArray[np.int64], frame: Frame, field: str) -> NDArray[Any]:
        """Return a field's items. Raises DataError where its rows are not as long as their tokens."""
        del frame
        return self.items(sample_ids, field)

    def items(self, sample_ids: NDArray[np.int64], field: str) -> NDArray[Any]:
        """Return the items of a list field, or the tokens, of samples."""
        return self._corpus.gather_windows(window_starts(sample_ids, self.seq_len), self._width, field)

    def document_starts(self, sample_ids: NDArray[np.int64], frame: Frame) -> NDArray[np.bool_]:
        """Return where documents begin: each row is one."""
        del frame
        starts = window_starts(sample_ids, self.seq_len)
        return row_starts_in_windows(self._corpus, starts, self._width)
