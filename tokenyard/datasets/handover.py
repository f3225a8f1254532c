"""Batches handed over by a worker process: through memory that both processes share, and that is used again.

Torch sends each tensor in new shared memory, whose file goes through a socket with a handshake; that costs more than
the batch. Here it happens once for each piece of memory. The memory has no name that could be left behind, and doesn't
count towards /dev/shm, which containers keep small.
"""

import mmap
import os
import weakref
from dataclasses import dataclass
from math import prod
from multiprocessing.reduction import DupFd
from typing import Any

import torch
from torch import Tensor

from tokenyard.stages import BatchTimes
from tokenyard.storage.temporary import temporary_file

_ALIGNMENT = 64
_SMALLEST_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the tensors of a batch lie in a piece of memory.

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


class Memory:
    """Memory that is shared with whoever it is sent to; sending it once is enough."""

    def __init__(self, handle: int, size: int) -> None:
        self._handle, self._size = handle, size
        self.bytes = torch.frombuffer(mmap.mmap(handle, size), dtype=torch.uint8)
        weakref.finalize(self, os.close, handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self._handle), self._size)


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """What is sent in place of a batch.

    Attributes:
        place: the worker's process id, and the number of its piece of memory that the batch lies in.
        memory: that piece, where it wasn't sent before.
        layout: of the batch.
        times: what it took to make, where that was measured.
    """

    place: tuple[int, int]
    memory: Memory | None
    layout: Layout
    times: BatchTimes | None = None


class Sender:
    """The worker's side. A batch stays where it is until `num_pieces` more were sent."""

    def __init__(self, num_pieces: int) -> None:
        self._pieces: list[Memory | None] = [None] * num_pieces
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
        number, new = self._sent % len(self._pieces), None
        self._sent += 1
        piece = self._pieces[number]
        if piece is None or len(piece.bytes) < size:
            piece = new = self._pieces[number] = _new_memory(max(_SMALLEST_BYTES, 1 << (size - 1).bit_length()))
        for name, part in _parts(piece.bytes, layout).items():
            part.copy_(batch[name])
        return Parcel(place=(os.getpid(), number), memory=new, layout=layout)


class Receiver:
    """The other side, for any number of workers."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, int], Memory] = {}

    def receive(self, parcel: Parcel, *, pin_memory: bool = False) -> dict[str, Tensor]:
        """Return the batch, in memory of its own."""
        if parcel.memory is not None:
            self._pieces[parcel.place] = parcel.memory
        parts = _parts(self._pieces[parcel.place].bytes, parcel.layout)
        return {
            name: torch.empty(part.shape, dtype=part.dtype, pin_memory=pin_memory).copy_(part)
            for name, part in parts.items()
        }


def _new_memory(size: int) -> Memory:
    """A file in memory, without a name; on disk, where the system has no such files."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("tokenyard", os.MFD_CLOEXEC)
    else:
        with temporary_file() as file:
            handle = os.dup(file.fileno())
    os.truncate(handle, size)
    return Memory(handle, size)


def _received(duplicate: Any, size: int) -> Memory:
    # Fetched as it is read, so that what nobody takes any more, of an epoch left early, is not kept for ever.
    return Memory(duplicate.detach(), size)


def _parts(memory: Tensor, layout: Layout) -> dict[str, Tensor]:
    """The tensors that lie in uint8[bytes]."""
    found = {}
    for name, dtype, shape, place in zip(layout.names, layout.dtypes, layout.shapes, layout.places, strict=True):
        num_bytes = prod(shape) * dtype.itemsize
        found[name] = memory[place : place + num_bytes].view(dtype).view(shape)
    return found
