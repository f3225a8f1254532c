"""The tensors of a batch as one, on its way from a process to another.

Torch sends each tensor through a socket of its own, with a handshake; that costs more than the batch.
"""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

_ALIGNMENT = 16
_SMALL_BYTES = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where tensors lie in one of bytes.

    Attributes:
        names: of each.
        dtypes: of each.
        shapes: of each.
        places: the byte at which each begins.
    """

    names: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]
    places: tuple[int, ...]


def join(batch: dict[str, Tensor]) -> tuple[Tensor, Layout]:
    """Return uint8[bytes] with all tensors of a batch, in memory that processes can share, and where they are."""
    places, size = [], 0
    for tensor in batch.values():
        places.append(size)
        size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
    storage = torch.UntypedStorage._new_shared(size, device="cpu")  # type: ignore[no-untyped-call]
    joined = torch.empty(0, dtype=torch.uint8).set_(storage)
    layout = Layout(
        names=tuple(batch),
        dtypes=tuple(tensor.dtype for tensor in batch.values()),
        shapes=tuple(tuple(tensor.shape) for tensor in batch.values()),
        places=tuple(places),
    )
    for name, part in _parts(joined, layout).items():
        part.copy_(batch[name])
    return joined, layout


def split(joined: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Return the tensors that were joined: large ones as parts of its memory, small ones, which one may keep, apart."""
    parts = _parts(joined, layout)
    return {name: part.clone() if part.nbytes < _SMALL_BYTES else part for name, part in parts.items()}


def _parts(joined: Tensor, layout: Layout) -> dict[str, Tensor]:
    found = {}
    for name, dtype, shape, place in zip(layout.names, layout.dtypes, layout.shapes, layout.places, strict=True):
        num_bytes = prod(shape) * dtype.itemsize
        found[name] = joined[place : place + num_bytes].view(dtype).view(shape)
    return found
