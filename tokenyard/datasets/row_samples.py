"""Samples of `rows`: each row is one, padded to a common length where rows are of different lengths."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tokenyard.cached import cached_property
from tokenyard.corpus import Corpus
from tokenyard.datasets.document_rule import AUTO, DocumentRule
from tokenyard.datasets.documents import starts_after, starts_of_lengths
from tokenyard.datasets.samples import IGNORED, DenseFrame, Frame
from tokenyard.errors import ConfigError, DataError


class Rows:
    """See `Samples`.

    Lines are padded to `seq_len` where it is given, else to the longest row of the batch, with the corpus's
    end-of-sequence id, else with 0.
    """

    number_documents = None

    def __init__(self, corpus: Corpus, seq_len: int | None, rule: DocumentRule = AUTO) -> None:
        shortest, longest = _row_length_range(corpus)
        if seq_len is not None and longest > seq_len:
            raise ConfigError(
                f"seq_len: {corpus.path} has rows of up to {longest} tokens, and mode rows takes whole rows, "
                f"but seq_len is {seq_len}; give {longest} or more, or none, or cut the rows by mode concat or packing"
            )
        layout = corpus.layout
        self.num_samples = len(corpus)
        self.seq_len = longest if shortest == longest and seq_len is None else seq_len
        self._corpus = corpus
        self._rule = rule
        self._where = corpus.path
        self._row_length = longest if shortest == longest else None
        self._lengths_field = layout.lengths_field
        self._stored_padding = layout.pad_token_id is not None and layout.lengths_field is not None
        self.pads = self._stored_padding or self.seq_len is None or self.seq_len != self._row_length
        self.pad_id = layout.pad_token_id if layout.pad_token_id is not None else corpus.schema.eos_token_id or 0

    def check_boundaries(self) -> None:
        """Raise ConfigError where it is not known how long a row's documents are."""
        if self._lengths_field is not None:
            return
        if self._rule.by == "lengths":
            raise ConfigError(
                f"documents is 'lengths', but the manifest of {self._where} names no field with the lengths of "
                "documents; pack the documents with tokenyard, or use documents 'rows' or 'eos'"
            )
        if self._rule.by == "auto" and self._corpus.layout.kind == "packed":
            raise ConfigError(
                f"boundaries and mask_boundaries: {self._where} is packed, and its manifest names no field with the "
                "lengths of documents; pack the documents again, or use documents 'eos' if documents end with an id of "
                "their own, or leave both out"
            )

    def frame(self, sample_ids: NDArray[np.int64]) -> Frame:
        """Return the tokens of rows."""
        if not self.pads and self._row_length is not None:
            return RowFrame(corpus=self._corpus, rows=sample_ids, width=self._row_length)
        flat, offsets = self._corpus.gather_rows(sample_ids)
        lengths = np.diff(offsets)
        if self._row_length is not None:
            check_lengths(self._corpus, sample_ids, lengths, self._row_length)
        width = int(lengths.max(initial=0)) if self.seq_len is None else self.seq_len
        tokens = _lines(flat, lengths, width, self.pad_id)
        return DenseFrame(tokens=tokens, lengths=self._used(sample_ids, lengths) if self._stored_padding else lengths)

    def input_width(self, frame: Frame) -> int:
        """Return the columns of the input: all."""
        return frame.shape[1]

    def items_beside(self, sample_ids: NDArray[np.int64], frame: Frame, field: str) -> NDArray[Any]:
        """Return a field's items, 0 at padding. Raises DataError where it is not as long as the tokens."""
        flat, offsets = self._corpus.gather_rows(sample_ids, field)
        lengths, expected = np.diff(offsets), self._stored_lengths(sample_ids, frame)
        if (bad := np.flatnonzero(lengths != expected)).size:
            row = int(bad[0])
            raise DataError(
                f"{self._where}, row {sample_ids[row]}: {lengths[row]} items of field {field!r}, but {expected[row]} "
                "tokens; write the corpus with one item a token"
            )
        return _lines(flat, lengths, frame.shape[1], 0)

    def document_starts(self, sample_ids: NDArray[np.int64], frame: Frame) -> NDArray[np.bool_]:
        """Return where documents begin: at each row, by the lengths that packed rows carry, or after each EOS id."""
        if self._rule.eos_token_id is not None:
            starts = starts_after(frame.tokens, self._rule.eos_token_id)
        elif self._rule.by == "rows" or self._lengths_field is None:
            starts = np.zeros(frame.shape, np.bool_)
        else:
            starts = self._starts_of_lengths(sample_ids, frame, self._lengths_field)
        starts[:, :1] = True
        if frame.lengths is not None and frame.is_token is not None:
            starts &= frame.is_token
            short = np.flatnonzero(frame.lengths < frame.shape[1])
            starts[short, frame.lengths[short]] = True
        return starts

    def _starts_of_lengths(self, sample_ids: NDArray[np.int64], frame: Frame, field: str) -> NDArray[np.bool_]:
        lengths = np.full(len(sample_ids), frame.shape[1]) if frame.lengths is None else frame.lengths
        documents, offsets = self._corpus.gather_rows(sample_ids, field)
        try:
            return starts_of_lengths(documents, offsets, lengths, frame.shape[1])
        except DataError as e:
            raise DataError(f"{self._where}, field {field!r}: {e}") from None

    def _stored_lengths(self, sample_ids: NDArray[np.int64], frame: Frame) -> NDArray[np.int64]:
        """Return the tokens that rows are stored with, padding among them."""
        if self._row_length is not None:
            return np.full(len(sample_ids), self._row_length)
        if frame.lengths is not None and not self._stored_padding:
            return frame.lengths
        return self._corpus.row_lengths_of(sample_ids)

    def _used(self, sample_ids: NDArray[np.int64], stored: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tokens of rows that are stored with padding: the sum of their documents."""
        documents, offsets = self._corpus.gather_rows(sample_ids, self._lengths_field or "")
        used = np.diff(np.concatenate([[0], np.cumsum(documents, dtype=np.int64)])[offsets])
        if (bad := np.flatnonzero(used > stored)).size:
            row = int(bad[0])
            raise DataError(
                f"{self._where}, row {sample_ids[row]}: its documents count {used[row]} tokens by field "
                f"{self._lengths_field!r}, but it holds {stored[row]}; pack the documents again"
            )
        return used


@dataclass(frozen=True, kw_only=True)
class RowFrame:
    """See `Frame`: rows of one length, read when they are asked for.

    Attributes:
        corpus: whose rows.
        rows: int64[n], their numbers.
        width: the tokens of each.
    """

    corpus: Corpus
    rows: NDArray[np.int64]
    width: int
    lengths: ClassVar[None] = None
    is_token: ClassVar[None] = None

    @cached_property
    def tokens(self) -> NDArray[Any]:
        """[n, width]."""
        flat, offsets = self.corpus.gather_rows(self.rows)
        check_lengths(self.corpus, self.rows, np.diff(offsets), self.width)
        return flat.reshape(self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns."""
        return len(self.rows), self.width

    def copy_to(
        self,
        inputs: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        *,
        shift: int,
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        """Write the tokens as they are trained on."""
        try:
            self.corpus.copy_rows(self.rows, self.width, lines, inputs, labels, shift=shift, fill=0, ignored=IGNORED)
        except DataError:
            _ = self.tokens  # says more, where rows are not as long as the manifest promises
            raise


def check_lengths(corpus: Corpus, rows: NDArray[np.int64], lengths: NDArray[np.int64], promised: int) -> None:
    """Raise DataError where rows are not as long as the manifest says that all are."""
    if (lengths != promised).any():
        raise DataError(
            f"{corpus.path}: the manifest promises rows of {promised} tokens, but among rows {rows.tolist()} "
            f"are some of {sorted(set(lengths.tolist()))}; write the corpus again"
        )


def _lines(flat: NDArray[Any], lengths: NDArray[np.int64], width: int, fill: int) -> NDArray[Any]:
    """Return [n, width]: each row on a line of its own, and `fill` after it."""
    if (lengths == width).all():
        return flat.reshape(len(lengths), width)
    lines = np.full((len(lengths), width), fill, flat.dtype)
    lines[np.arange(width) < lengths[:, None]] = flat
    return lines


def _row_length_range(corpus: Corpus) -> tuple[int, int]:
    """The shortest and the longest row. Reads indexes, unless the manifest says it: full packed rows."""
    packed_len = corpus.layout.seq_len
    if packed_len is not None and corpus.num_tokens == packed_len * len(corpus):
        return packed_len, packed_len
    ranges = []
    for start, stop in pairwise(corpus.shard_row_starts.tolist()):
        if start < stop:
            lengths = corpus.row_lengths(start, stop)
            ranges.append((int(lengths.min()), int(lengths.max())))
    return min((low for low, _ in ranges), default=0), max((high for _, high in ranges), default=0)
