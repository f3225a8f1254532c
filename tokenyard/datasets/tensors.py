"""From arrays as they are stored to tensors of the caller's own: tokens and labels."""

from functools import cache, reduce

import numpy as np
import torch
from torch import Tensor

from tokenyard.datasets.content import Content, Mask
from tokenyard.datasets.samples import IGNORED


@cache
def keep_freed_memory() -> None:
    """Let the C library keep memory that was freed for what comes next, in place of giving it back. Once a process.

    glibc gives blocks of more than 128 KiB back at once, until a program frees a larger one: then it keeps blocks up to
    that size, and twice as much of freed memory. A batch in memory that was given back costs a page fault for every
    4 KiB, twice what it costs to read it. 31 MiB is just below the most that glibc goes along with.
    """
    np.empty(31 << 20, np.uint8)


def empty_tensor(num_samples: int, width: int, dtype: torch.dtype, pin_memory: bool) -> Tensor:
    """Return [num_samples, width] of new memory, with values still to be set."""
    if pin_memory:
        return torch.empty(num_samples, width, dtype=dtype, pin_memory=True)
    return torch.empty(num_samples, width, dtype=dtype)  # without the option it takes two thirds of the time


def mask_labels(labels: Tensor, content: Content, *, shift: int, mask_boundaries: bool) -> None:
    """Set -100 at labels that are masked, and labels that are taken as they are.

    Args:
        labels: int64[n, width], the tokens `shift` places further than those of the input.
        content: tokens, what masks them, and labels that are taken as they are.
        shift: how many tokens labels are ahead of the input.
        mask_boundaries: whether the first token of a document is no label, unless it is the first of its sample.
    """
    masked = _masked(content, mask_boundaries)
    if masked is not None:
        masked = masked[:, shift : shift + labels.shape[1]]
        np.copyto(labels.numpy()[:, : masked.shape[1]], IGNORED, where=masked)
    if content.labels is not None and content.has_labels is not None:
        np.copyto(labels.numpy(), content.labels, where=content.has_labels[:, None])


def _masked(content: Content, mask_boundaries: bool) -> Mask | None:
    """Return bool of the frame's shape: the tokens that are no labels; None when all are."""
    masks = []
    if content.frame.is_token is not None:
        masks.append(~content.frame.is_token)
    if content.loss_mask is not None:
        masks.append(~content.loss_mask)
    if mask_boundaries and content.document_starts is not None:
        crossing = content.document_starts.copy()
        crossing[:, :1] = False
        masks.append(crossing)
    return reduce(np.logical_or, masks) if masks else None
