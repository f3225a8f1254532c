"""What an engine is: something that turns texts into token ids, without special tokens around them."""

import os
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

EngineName = Literal["transformers", "fastokens", "gigatoken"]
SpecialText = Literal["encode", "plain"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoded:
    """The ids of several texts, one behind the other.

    ids: uint32[num_tokens]. lengths: int64[num_texts], summing to num_tokens.
    """

    ids: npt.NDArray[np.uint32]
    lengths: npt.NDArray[np.int64]

    def split(self) -> list[npt.NDArray[np.uint32]]:
        """Return the ids of each text, as views."""
        return np.split(self.ids, np.cumsum(self.lengths)[:-1]) if len(self.lengths) else []


class Engine(Protocol):
    """A tokenizer under one policy for special text. Ids depend on the text alone, never on the batch."""

    @property
    def name(self) -> EngineName:
        """Which library encodes."""

    def encode_batch(self, texts: list[str]) -> Encoded:
        """Encode each text, adding nothing. Texts are valid Unicode (no lone surrogates), and may be empty."""


def limit_threads() -> None:
    """Hold every engine in this process to one thread.

    For worker processes, before the first text is encoded: the engines read the environment when they first run.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"


def empty_encoded() -> Encoded:
    """Return what no texts encode to."""
    return Encoded(ids=np.empty(0, np.uint32), lengths=np.empty(0, np.int64))


def from_lists(lists: list[list[int]]) -> Encoded:
    """Return lists of ids as one array."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    ids = np.fromiter((number for ids in lists for number in ids), np.uint32, int(lengths.sum()))
    return Encoded(ids=ids, lengths=lengths)


def concatenate(parts: list[Encoded]) -> Encoded:
    """Join the ids of consecutive batches."""
    if not parts:
        return empty_encoded()
    return Encoded(
        ids=np.concatenate([part.ids for part in parts]), lengths=np.concatenate([part.lengths for part in parts])
    )
