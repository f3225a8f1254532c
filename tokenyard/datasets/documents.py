"""Where documents begin in a batch, and what attention needs to know of it.

The first tokens of documents come as a mask, bool[n, width]; the rest is counted along it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenyard.datasets.spans import mark_lengths, number_documents
from tokenyard.datasets.tensors import empty_tensor
from tokenyard.errors import DataError

Int64Array = NDArray[np.int64]
Mask = NDArray[np.bool_]
Int32Array = NDArray[np.int32]
#: Fills positions and numbers of documents, int32[n, width] both, and where documents end, as `number_documents` does.
Number = Callable[[Int32Array, Int32Array, Int32Array], tuple[int, int]]

_NO_PADDING = np.empty(0, np.int64)


def starts_of_lengths(lengths: NDArray[Any], offsets: Int64Array, row_lengths: Int64Array, width: int) -> Mask:
    """Return bool[n, width]: where documents begin in rows that say the length of each of theirs.

    Documents of no length are left out. What a row holds past its last document begins another one.

    Args:
        lengths: lengths of documents, flat.
        offsets: int64[n + 1] into `lengths`: the documents of each row.
        row_lengths: int64[n], the tokens of each row, at most `width`.
        width: columns of the result.

    Raises:
        DataError: the documents of a row are longer than the row, or one has less than no tokens; the message counts
            rows from 0 in this batch.
        ValueError: the arrays don't fit together.
    """
    if len(offsets) != len(row_lengths) + 1 or offsets[-1] > len(lengths) or row_lengths.max(initial=0) > width:
        raise ValueError(
            f"expected rows of at most {width} tokens, and documents for each; found {len(row_lengths)} rows of up to "
            f"{row_lengths.max(initial=0)}, {len(offsets)} offsets, {len(lengths)} documents"
        )
    mask = np.zeros((len(row_lengths), width), np.bool_)
    bad = mark_lengths(lengths.astype(np.int64, copy=False), offsets, row_lengths, mask.view(np.uint8))
    if bad >= 0:
        of_row = lengths[offsets[bad] : offsets[bad + 1]]
        what = (
            f"one of its documents counts {of_row.min()}" if of_row.min() < 0 else f"its documents count {of_row.sum()}"
        )
        raise DataError(f"row {bad} of the batch: {what} tokens, it holds {row_lengths[bad]}")
    return mask


def starts_after(tokens: NDArray[Any], eos_token_id: int) -> Mask:
    """Return bool of the shape of tokens [n, width]: those that stand after an EOS id, which ends its document.

    The first token of a line stands after none.
    """
    mask = np.zeros(tokens.shape, np.bool_)
    np.equal(tokens[:, :-1], eos_token_id, out=mask[:, 1:])
    return mask


def document_tensors(
    starts: Mask, lengths: Int64Array | None, width: int, *, pin_memory: bool = False
) -> dict[str, Tensor]:
    """Return what attention needs to know of the documents of a batch: new tensors.

    `position_ids` and `document_ids` are int32[n, width], as `TokenDataset` tells. `cu_seqlens`, int32[documents + 1],
    is strictly increasing from 0 to n * width: where documents begin in the batch seen as one line, and its end.
    `max_seqlen`, int32 without dimension, is the tokens of the longest. Each sample begins a document, as attention
    never reaches into another sample.

    Args:
        starts: bool[n, at least width], the first tokens of documents.
        lengths: int64[n], the tokens of each sample, after which there is padding; None where there is none.
        width: tokens of a sample.
        pin_memory: whether the large ones are made in page-locked memory; needs CUDA.

    Raises:
        ValueError: there are fewer marks than tokens, or not one length a sample.
    """
    if starts.shape[1] < width or (lengths is not None and len(lengths) != len(starts)):
        raise ValueError(
            f"expected marks for {width} tokens of each sample, and a length of each; found marks {starts.shape}, "
            f"{'no' if lengths is None else len(lengths)} lengths"
        )
    marks = np.ascontiguousarray(starts).view(np.uint8)
    padding = _NO_PADDING if lengths is None else lengths
    return numbered_tensors(partial(number_documents, marks, padding), len(starts), width, pin_memory=pin_memory)


def numbered_tensors(number: Number, num_samples: int, width: int, *, pin_memory: bool = False) -> dict[str, Tensor]:
    """Return what `document_tensors` does, written by a function that knows where documents begin.

    Args:
        number: what fills the arrays.
        num_samples: lines of the batch.
        width: tokens of a sample.
        pin_memory: whether the large ones are made in page-locked memory; needs CUDA.
    """
    positions, numbers = (empty_tensor(num_samples, width, torch.int32, pin_memory) for _ in range(2))
    ends = np.empty(num_samples * width + 1, np.int32)
    count, longest = number(positions.numpy(), numbers.numpy(), ends)
    return {
        "position_ids": positions,
        "document_ids": numbers,
        "cu_seqlens": torch.from_numpy(ends[: count + 1].copy()),
        "max_seqlen": torch.from_numpy(np.array(longest, np.int32)),
    }
