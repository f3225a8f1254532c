"""What a sample is: how many there are, which tokens each takes, and which of these are its labels. Pure functions.

`concat` cuts the stream of all tokens, across rows and shards, into windows of `seq_len`. `rows` takes each row as it
is. Labels are `shifted` (label t is the token after input t), the `same` tokens as the input (for models that shift
inside, as those of Hugging Face do), or `none`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenyard.cached import cached_property
from tokenyard.errors import ConfigError

Mode = Literal["concat", "rows"]
Labels = Literal["shifted", "same", "none"]

#: The label that losses leave out, as torch's `cross_entropy` does by default.
IGNORED = -100
#: Tokens of a window where neither the caller nor packed rows say it.
DEFAULT_SEQ_LEN = 2048

#: Numbers the documents of samples as `spans.number_documents` does, and returns what it does. Takes the samples,
#: int64[n], their tokens, int64[n, input width], and what it writes: positions, numbers and ends.
NumberDocuments = Callable[
    [NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]], tuple[int, int]
]


class Frame(Protocol):
    """The tokens of n samples: those of the input, and the one label past it where there is one."""

    @property
    def tokens(self) -> NDArray[Any]:
        """[n, width] of any integer dtype."""

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        """int64[n], the tokens of each sample; the rest of its line is padding. None when no line has any."""

    @property
    def is_token(self) -> NDArray[np.bool_] | None:
        """bool[n, width]: where a token stands and no padding; None when there is no padding."""

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns."""

    def copy_to(
        self,
        inputs: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        *,
        shift: int,
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        """Write the tokens as they are trained on.

        Args:
            inputs: int64[lines, input width], contiguous.
            labels: of the same shape: the tokens `shift` places further, `IGNORED` where there is none.
            shift: how many tokens labels are ahead of the input.
            lines: int64[n], the line that each sample is written to; the first n when not given.
        """


@dataclass(frozen=True, kw_only=True)
class DenseFrame:
    """See `Frame`: tokens that lie in an array."""

    tokens: NDArray[Any]
    lengths: NDArray[np.int64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns."""
        return self.tokens.shape[0], self.tokens.shape[1]

    @cached_property
    def is_token(self) -> NDArray[np.bool_] | None:
        """Where a token stands."""
        if self.lengths is None:
            return None
        mask: NDArray[np.bool_] = np.arange(self.tokens.shape[1]) < self.lengths[:, None]
        return mask

    def copy_to(
        self,
        inputs: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        *,
        shift: int,
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        """Write the tokens as they are trained on."""
        width = inputs.shape[1]
        at: Any = slice(None) if lines is None else lines
        inputs[at] = self.tokens[:, :width]
        if labels is not None:
            shifted = self.tokens[:, shift : shift + width]
            labels[at, : shifted.shape[1]] = shifted
            labels[at, shifted.shape[1] :] = IGNORED


class Samples(Protocol):
    """Where the tokens of samples come from: windows of the stream, or rows.

    Attributes:
        num_samples: samples in all.
    """

    num_samples: int

    @property
    def number_documents(self) -> NumberDocuments | None:
        """What numbers documents in one pass, without marks of where they begin; None where it takes these."""

    @property
    def seq_len(self) -> int | None:
        """Tokens of every sample's input; None when they differ from batch to batch."""

    def frame(self, sample_ids: NDArray[np.int64]) -> Frame:
        """Return the tokens of samples, all in [0, num_samples). The methods below take what it gave for them."""

    def input_width(self, frame: Frame) -> int:
        """Return how many columns of a frame are the input."""

    def items_beside(self, sample_ids: NDArray[np.int64], frame: Frame, field: str) -> NDArray[Any]:
        """Return the items of a list field that stand beside the tokens of a frame, in its shape; 0 at padding."""

    def document_starts(self, sample_ids: NDArray[np.int64], frame: Frame) -> NDArray[np.bool_]:
        """Return bool of the frame's shape: true at the first token of each document, and at the first of padding."""

    def check_boundaries(self) -> None:
        """Raise ConfigError where it is not known where documents begin."""


def label_shift(labels: Labels) -> int:
    """Return how many tokens the labels are ahead of the input."""
    return 1 if labels == "shifted" else 0


def default_seq_len(packed_lengths: Iterable[int | None]) -> int:
    """Return the tokens of a window when nobody says: those of a packed row, where all sources have rows of one length.

    Args:
        packed_lengths: of the rows of each source; None where they are not packed.
    """
    lengths = set(packed_lengths)
    found = lengths.pop() if len(lengths) == 1 else None
    return DEFAULT_SEQ_LEN if found is None else found


def num_windows(num_tokens: int, seq_len: int, labels: Labels) -> int:
    """Return the samples of `concat`; shifted labels need one token past the last sample."""
    return max(0, num_tokens - label_shift(labels)) // seq_len


def window_starts(sample_ids: NDArray[np.int64], seq_len: int) -> NDArray[np.int64]:
    """Return the first token of each sample of `concat`, counted over the whole corpus."""
    return sample_ids * seq_len


def window_width(seq_len: int, labels: Labels) -> int:
    """Return the tokens that a sample of `concat` takes: its input, and one more when labels are shifted."""
    return seq_len + label_shift(labels)


def check_options(mode: str, labels: str, seq_len: int | None, mask_boundaries: bool) -> None:
    """Refuse options that are unknown or can't work together. Raises ConfigError that names them."""
    for name, value, known in (("mode", mode, ("concat", "rows")), ("labels", labels, ("shifted", "same", "none"))):
        if value not in known:
            raise ConfigError(f"{name}: expected one of {', '.join(known)}, found {value!r}")
    if seq_len is not None and (type(seq_len) is not int or seq_len < 1):
        raise ConfigError(f"seq_len: expected a whole number from 1 on, found {seq_len!r}")
    if mask_boundaries and labels == "none":
        raise ConfigError("mask_boundaries masks labels, but labels is none; choose other labels, or leave one out")
