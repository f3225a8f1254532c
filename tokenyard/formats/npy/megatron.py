"""What the .idx beside a Megatron .bin says: the dtype of its ids, and where documents begin.

Layout: https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/datasets/indexed_dataset.py. A .bin holds
sequences one after another, and documents are runs of sequences.
"""

from __future__ import annotations

import struct

import numpy as np

from tokenyard.errors import DataError
from tokenyard.rows import Offsets, offsets_of
from tokenyard.storage import Folder

MAGIC = b"MMIDIDX\x00\x00"
_HEAD = struct.Struct("<9sQBQQ")
_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}


def index_beside(name: str) -> str:
    """The name of the .idx that belongs to a .bin."""
    return name.removesuffix(".bin") + ".idx"


def token_dtype(folder: Folder, name: str) -> np.dtype[np.generic] | None:
    """The dtype of the ids that an .idx tells; None where it is no .idx of Megatron's. Raises DataError."""
    head = folder.read(name, _HEAD.size)
    return _parsed(str(folder.at(name)), head)[0] if head.startswith(MAGIC) else None


def document_offsets(folder: Folder, name: str, num_tokens: int) -> Offsets:
    """int64[documents + 1]: where documents begin in a .bin of ``num_tokens``. Raises DataError."""
    where = str(folder.at(name))
    data = folder.map(name)
    dtype, num_sequences, num_ends = _parsed(where, bytes(data[: _HEAD.size]))
    # What follows is a mode for each sequence, in multimodal corpora alone.
    needed = _HEAD.size + 12 * num_sequences + 8 * num_ends
    if data.nbytes not in (needed, needed + num_sequences):
        raise DataError(
            f"{where}: {data.nbytes} bytes, but {num_sequences} sequences and {num_ends} ends of documents take "
            f"{needed}; the file was cut or never finished"
        )
    lengths = np.frombuffer(data, "<i4", num_sequences, _HEAD.size).astype(np.int64)
    pointers = np.frombuffer(data, "<i8", num_sequences, _HEAD.size + 4 * num_sequences)
    ends = np.frombuffer(data, "<i8", num_ends, _HEAD.size + 12 * num_sequences)
    if (lengths < 0).any():
        raise DataError(f"{where}: a sequence of {int(lengths.min())} tokens; the file is damaged")
    starts = offsets_of(lengths)
    if starts[-1] != num_tokens or not np.array_equal(pointers, starts[:-1] * dtype.itemsize):
        raise DataError(
            f"{where}: it tells of sequences with {int(starts[-1])} tokens one after another, the .bin beside it holds "
            f"{num_tokens}; they don't belong together, or one of them was cut"
        )
    if not num_ends or ends[0] != 0 or ends[-1] != num_sequences or (ends[1:] < ends[:-1]).any():
        raise DataError(
            f"{where}: its ends of documents don't lead from 0 to its {num_sequences} sequences; it is damaged"
        )
    offsets: Offsets = starts[ends]
    return offsets


def _parsed(where: str, head: bytes) -> tuple[np.dtype[np.generic], int, int]:
    if len(head) < _HEAD.size:
        raise DataError(f"{where}: {len(head)} bytes, less than the head of an .idx; it was cut")
    _, version, code, num_sequences, num_ends = _HEAD.unpack(head)
    if version != 1 or code not in _DTYPES:
        raise DataError(
            f"{where}: an .idx of version {version} with the dtype code {code}; known are version 1 and codes 1 to 8"
        )
    return np.dtype(_DTYPES[code]), num_sequences, num_ends
