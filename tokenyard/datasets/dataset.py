"""A corpus as a dataset of torch: by index, by a list of indices, and as whole batches by one gather."""

import operator
import os
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset

from tokenyard.corpus import Corpus, open_corpus
from tokenyard.datasets.documents import Documents
from tokenyard.datasets.row_samples import Rows
from tokenyard.datasets.samples import IGNORED, Frame, Labels, Mode, Samples, check_options, label_shift
from tokenyard.datasets.windows import Windows
from tokenyard.errors import ConfigError

LOSS_MASK = "loss_mask"
#: What only a whole batch has, and no single sample.
_OF_BATCHES = ("cu_seqlens", "max_seqlen")


class TokenDataset(Dataset[dict[str, Tensor]]):
    """The samples of a corpus, for torch's `DataLoader` as it is, or for `build_dataloader`.

    A sample is a dict of tensors, int64 unless said otherwise:

    - `input_ids`, `labels`: [seq_len]. No `labels` when `labels` is none. A label of -100 is masked.
    - `sample_ids`: the number of the sample in the dataset.
    - `attention_mask`: [seq_len], 1 at tokens and 0 at padding; in every sample where rows are of different lengths,
      or shorter than `seq_len`, and in none otherwise.
    - `position_ids`, `document_ids`: [seq_len], with `boundaries`. Positions begin again at 0 with each document;
      documents are numbered from 0 in each sample, padding is -1.

    `batch` stacks them, and with `boundaries` adds `cu_seqlens` int32[documents + 1] and `max_seqlen` (int32, no
    dimension), for attention over the batch seen as one line; padding of a row counts as a document.

    A list field `loss_mask` as long as the tokens, where the corpus has one, masks the labels whose token it marks 0.

    Args:
        source: a corpus, or what `open_corpus` takes.
        seq_len: tokens of a sample; 2,048 for `concat` when not given. With `rows`: what rows are padded to (none may
            be longer), or nothing, to pad to the longest row of a batch.
        mode: `concat` (windows over the token stream) or `rows` (a row is a sample).
        labels: `shifted` (label t is the token after input t), `same` (for models that shift inside), or `none`.
        boundaries: whether samples say where documents begin.
        mask_boundaries: whether labels are masked that another document than their input's holds.

    Raises:
        ConfigError: an option is unknown or doesn't fit the corpus; the message names it.
    """

    def __init__(
        self,
        source: Corpus | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        seq_len: int | None = None,
        mode: Mode = "concat",
        labels: Labels = "shifted",
        *,
        boundaries: bool = False,
        mask_boundaries: bool = False,
    ) -> None:
        check_options(mode, labels, seq_len, mask_boundaries)
        self.corpus = source if isinstance(source, Corpus) else open_corpus(source)
        self.mode: Mode = mode
        self.labels: Labels = labels
        self._samples: Samples = (
            Windows(self.corpus, seq_len, labels) if mode == "concat" else Rows(self.corpus, seq_len)
        )
        if boundaries or mask_boundaries:
            self._samples.check_boundaries()
        self._boundaries = boundaries
        self._mask_boundaries = mask_boundaries
        self._has_loss_mask = labels != "none" and _has_loss_mask(self.corpus)

    @property
    def seq_len(self) -> int | None:
        """Tokens of every sample; None when they differ from batch to batch."""
        return self._samples.seq_len

    def __len__(self) -> int:
        return self._samples.num_samples

    def __repr__(self) -> str:
        return f"TokenDataset({self.corpus!r}, {len(self)} samples, seq_len {self.seq_len}, {self.mode})"

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """Return one sample. Negative indices count from the end. Raises IndexError."""
        return self.__getitems__([operator.index(index)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        """Return samples, read by one gather; torch's `DataLoader` asks for all of a batch by this."""
        batch = {name: tensor.unbind(0) for name, tensor in self.batch(indices).items() if name not in _OF_BATCHES}
        return [dict(zip(batch, sample, strict=True)) for sample in zip(*batch.values(), strict=True)]

    def batch(self, indices: ArrayLike, *, pin_memory: bool = False) -> dict[str, Tensor]:
        """Return samples as one batch: each tensor of a sample with a first dimension of `len(indices)`, contiguous.

        Args:
            indices: whole numbers in [-len, len), in any order; the same one may come again.
            pin_memory: whether the large tensors are made in page-locked memory; needs CUDA.

        Raises:
            IndexError: an index is outside the dataset.
            DataError: what the corpus holds is damaged.
        """
        ids = self._checked(indices)
        frame = self._samples.frame(ids)
        width = self._samples.input_width(frame)
        starts = self._samples.document_starts(ids, frame) if self._boundaries or self._mask_boundaries else None
        batch = {"input_ids": _tensor(frame.tokens[:, :width], pin_memory)}
        if self.labels != "none":
            batch["labels"] = self._labels_of(ids, frame, width, starts, pin_memory)
        if frame.is_token is not None:
            batch["attention_mask"] = _tensor(frame.is_token, pin_memory)
        if self._boundaries and starts is not None:
            documents = Documents.of(starts[:, :width])
            batch["position_ids"] = torch.from_numpy(documents.position_ids())
            batch["document_ids"] = torch.from_numpy(documents.document_ids(frame.is_token))
            batch["cu_seqlens"] = torch.from_numpy(documents.cu_seqlens())
            batch["max_seqlen"] = torch.tensor(documents.max_seqlen(), dtype=torch.int32)
        batch["sample_ids"] = torch.from_numpy(ids)
        return batch

    def _labels_of(
        self, ids: NDArray[np.int64], frame: Frame, width: int, starts: NDArray[np.bool_] | None, pin_memory: bool
    ) -> Tensor:
        shift = label_shift(self.labels)
        tokens = frame.tokens[:, shift : shift + width]
        known = tokens.shape[1]
        labels = _tensor(tokens, pin_memory, width)
        if known < width:  # the last label of a row would be the token after the row
            labels[:, known:] = IGNORED
        masked = self._masked(ids, frame, starts)
        if masked is not None:
            np.copyto(labels.numpy()[:, :known], IGNORED, where=masked[:, shift : shift + width])
        return labels

    def _masked(
        self, ids: NDArray[np.int64], frame: Frame, starts: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_] | None:
        """Return bool of the frame's shape: the tokens that are no labels; None when all are."""
        masks = []
        if frame.is_token is not None:
            masks.append(~frame.is_token)
        if self._has_loss_mask:
            masks.append(self._samples.items_beside(ids, frame, LOSS_MASK) == 0)
        if self._mask_boundaries and starts is not None:
            crossing = starts.copy()
            crossing[:, :1] = False
            masks.append(crossing)
        return reduce(np.logical_or, masks) if masks else None

    def _checked(self, indices: ArrayLike) -> NDArray[np.int64]:
        given = np.asarray(indices)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise IndexError(f"expected a list of whole numbers, found {given.dtype} of shape {given.shape}")
        ids = given.astype(np.int64)
        size = len(self)
        # Seen as unsigned, a negative number is larger than any size.
        if ids.size and int(ids.view(np.uint64).max()) >= size:
            if ids.min() < -size or ids.max() >= size:
                raise IndexError(f"samples {ids.min()} .. {ids.max()} are not all within the {size} of {self!r}")
            ids[ids < 0] += size
        return ids


def _tensor(values: NDArray[Any], pin_memory: bool, width: int | None = None) -> Tensor:
    """Return int64[n, width], contiguous, with memory of its own: the values [n, w], then what is still to be set."""
    num_samples, known = values.shape
    if not pin_memory and width in (None, known):
        return torch.from_numpy(values.astype(np.int64, order="C"))
    tensor = torch.empty((num_samples, known if width is None else width), dtype=torch.int64, pin_memory=pin_memory)
    np.copyto(tensor.numpy()[:, :known], values)
    return tensor


def _has_loss_mask(corpus: Corpus) -> bool:
    declared = corpus.schema.fields.get(LOSS_MASK)
    if declared is not None and not declared.is_list:
        raise ConfigError(
            f"{corpus.folder.path}: its field {LOSS_MASK!r} is declared as {declared}, but it masks tokens, so it must "
            "be a list with an item a token, such as 'uint8[]'; give the field another name if it means something else"
        )
    return declared is not None
