"""Samples of `concat`: windows over the stream of all tokens, across rows and shards."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tokenyard.cached import cached_property
from tokenyard.corpus import Corpus
from tokenyard.datasets.document_rule import AUTO, DocumentRule
from tokenyard.datasets.documents import starts_after
from tokenyard.datasets.samples import Frame, Labels, num_windows, window_starts, window_width
from tokenyard.datasets.spans import number_after
from tokenyard.errors import ConfigError


class Windows:
    """See `Samples`."""

    pads = False
    pad_id = 0

    def __init__(self, corpus: Corpus, seq_len: int, labels: Labels, rule: DocumentRule = AUTO) -> None:
        if corpus.layout.pad_token_id is not None:
            raise ConfigError(
                f"mode: {corpus.path} is packed in rows that end in padding, which windows of mode concat would "
                "train on; use mode rows, where a packed row is a sample"
            )
        self.seq_len = seq_len
        self.num_samples = num_windows(corpus.num_tokens, self.seq_len, labels)
        self._corpus = corpus
        self._rule = rule
        self._width = window_width(self.seq_len, labels)

    def check_boundaries(self) -> None:
        """Raise ConfigError where it is not known in which rows documents begin."""
        where = self._corpus.path
        if self._rule.by == "lengths":
            raise ConfigError(
                f"documents is 'lengths', which packed rows carry, but mode concat cuts {where} regardless of rows; "
                "use mode rows, or documents 'eos' if documents end with an id of their own"
            )
        if self._rule.by == "auto" and self._corpus.layout.kind == "packed":
            raise ConfigError(
                f"boundaries and mask_boundaries: {where} is packed, so a document may go on from one row to the next, "
                "and windows of mode concat can't tell; use mode rows, where a packed row is a sample, or documents "
                "'eos' if documents end with an id of their own, or the corpus of documents that was packed"
            )

    def frame(self, sample_ids: NDArray[np.int64]) -> Frame:
        """Return the tokens of samples."""
        return WindowFrame(corpus=self._corpus, starts=window_starts(sample_ids, self.seq_len), width=self._width)

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
        """Return where documents begin: at each row, or after each EOS id."""
        if self._rule.eos_token_id is not None:
            return starts_after(frame.tokens, self._rule.eos_token_id)
        return self._corpus.row_starts_in_windows(window_starts(sample_ids, self.seq_len), self._width)

    def number_documents(
        self,
        sample_ids: NDArray[np.int64],
        inputs: NDArray[np.int64],
        positions: NDArray[np.int32],
        numbers: NDArray[np.int32],
        ends: NDArray[np.int32],
    ) -> tuple[int, int]:
        """Number the documents of samples by rows, or by the EOS ids among their tokens."""
        if self._rule.eos_token_id is not None:
            found: tuple[int, int] = number_after(inputs, self._rule.eos_token_id, positions, numbers, ends)
            return found
        starts = window_starts(sample_ids, self.seq_len)
        return self._corpus.number_rows_in_windows(starts, positions, numbers, ends)


@dataclass(frozen=True, kw_only=True)
class WindowFrame:
    """See `Frame`: windows of the token stream, read when they are asked for.

    Attributes:
        corpus: whose stream.
        starts: int64[n], the first token of each window.
        width: its tokens.
    """

    corpus: Corpus
    starts: NDArray[np.int64]
    width: int
    lengths: ClassVar[None] = None
    is_token: ClassVar[None] = None

    @cached_property
    def tokens(self) -> NDArray[Any]:
        """[n, width]."""
        return self.corpus.gather_windows(self.starts, self.width)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns."""
        return len(self.starts), self.width

    def copy_to(
        self,
        inputs: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        *,
        shift: int,
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        """Write the tokens as they are trained on."""
        self.corpus.copy_windows(self.starts, lines, inputs, labels, shift=shift)
