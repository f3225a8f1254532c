"""What a corpus holds, as plain lists."""

from itertools import pairwise
from typing import Any

import numpy as np

from tokenyard import Corpus


def tokens_of(corpus: Corpus) -> list[list[int]]:
    gathered = [corpus[i].tolist() for i in range(len(corpus))]
    flat, offsets = corpus.gather_rows(np.arange(len(corpus)))
    assert gathered == [flat[start:stop].tolist() for start, stop in pairwise(offsets)]
    assert gathered == [t.tolist() for b in corpus.batches() for t in np.split(b.tokens, b.offsets[1:-1])]
    return gathered


def column(corpus: Corpus, name: str) -> list[Any]:
    return [corpus.row(i)[name] for i in range(len(corpus))]
