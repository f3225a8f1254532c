"""Batches handed over by a worker process: through memory that both processes share, and that is used again.

Torch sends each tensor in new shared memory, whose file goes through a socket with a handshake; that costs more than
the batch. Here it happens once for each piece of memory. The memory has no name that could be left behind, and doesn't
count towards /dev/shm, which containers keep small.
"""

import mmap
import os
import tempfile
from dataclasses import dataclass
from math import prod
from multiprocessing.reduction import DupFd
from typing import Any

import torch
from torch import Tensor

_ALIGNMENT = 64
_SMALLEST_BYTES = 1 << 16


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


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """What is sent in place of a batch.

    Attributes:
        memory: the number of the piece of memory that the batch lies in, and the worker's process id.
        file: what opens that memory, and its size; sent where the receiver doesn't have it yet.
        layout: of the batch.
    """

    memory: tuple[int, int]
    file: tuple[Any, int] | None
    layout: Layout


class Sender:
    """The worker's side. A batch stays where it is until `num_pieces` more were sent."""

    def __init__(self, num_pieces: int) -> None:
        self._pieces: list[Tensor | None] = [None] * num_pieces
        self._sent = 0

    def send(self, batch: dict[str, Tensor]) -> Parcel:
        """Copy a batch to the piece of memory whose turn it is."""
        places, size = [], 0
        for tensor in batch.values():
            places.append(size)
            size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        layout = Layout(
            names=tuple(batch),
            dtypes=tuple(tensor.dtype for tensor in batch.values()),
            shapes=tuple(tuple(tensor.shape) for tensor in batch.values()),
            places=tuple(places),
        )
        number, file = self._sent % len(self._pieces), None
        self._sent += 1
        piece = self._pieces[number]
        if piece is None or len(piece) < size:
            size = max(_SMALLEST_BYTES, 1 << (size - 1).bit_length())
            handle = _nameless_file(size)
            try:
                piece, file = _mapped(handle, size), (DupFd(handle), size)
            finally:
                os.close(handle)
            self._pieces[number] = piece
        for name, part in _parts(piece, layout).items():
            part.copy_(batch[name])
        return Parcel(memory=(number, os.getpid()), file=file, layout=layout)


class Receiver:
    """The other side, for any number of workers."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, int], Tensor] = {}

    def receive(self, parcel: Parcel, *, pin_memory: bool = False) -> dict[str, Tensor]:
        """Return the batch, in memory of its own."""
        if parcel.file is not None:
            duplicate, size = parcel.file
            handle = duplicate.detach()
            try:
                self._pieces[parcel.memory] = _mapped(handle, size)
            finally:
                os.close(handle)
        batch = {}
        for name, part in _parts(self._pieces[parcel.memory], parcel.layout).items():
            batch[name] = torch.empty(part.shape, dtype=part.dtype, pin_memory=pin_memory).copy_(part)
        return batch


def _nameless_file(size: int) -> int:
    """Return the descriptor of a file in memory; on disk, where the system has no such files."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("tokenyard", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.truncate(handle, size)
    return handle


def _mapped(handle: int, size: int) -> Tensor:
    return torch.frombuffer(mmap.mmap(handle, size), dtype=torch.uint8)


def _parts(memory: Tensor, layout: Layout) -> dict[str, Tensor]:
    found = {}
    for name, dtype, shape, place in zip(layout.names, layout.dtypes, layout.shapes, layout.places, strict=True):
        num_bytes = prod(shape) * dtype.itemsize
        found[name] = memory[place : place + num_bytes].view(dtype).view(shape)
    return found
