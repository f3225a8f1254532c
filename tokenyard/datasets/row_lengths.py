"""How long rows are, by their numbers in the dataset: read from indexes, without their tokens."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.dataset import TokenDataset
from tokenyard.errors import ConfigError

Int64Array = NDArray[np.int64]


class DatasetRowLengths:
    """Gives the tokens of samples of mode `rows`, as they are stored, before any transform.

    Args:
        dataset: of one corpus or of several, whose numbers follow one another.
    """

    def __init__(self, dataset: TokenDataset) -> None:
        self._dataset = dataset

    def __call__(self, sample_ids: Int64Array) -> Int64Array:
        """Return int64 of the shape of `sample_ids`. Raises IndexError for numbers that the dataset doesn't have."""
        sources, samples = self._dataset.locate(sample_ids.reshape(-1))
        lengths = np.empty(sources.shape, np.int64)
        for k, corpus in enumerate(self._dataset.corpora):
            places = np.flatnonzero(sources == k)
            if places.size:
                lengths[places] = corpus.row_lengths_of(samples[places])
        return lengths.reshape(sample_ids.shape)

    def check_at_most(self, tokens: int) -> None:
        """Raise ConfigError where a row is longer than a budget of tokens. Goes through all lengths."""
        for corpus in self._dataset.corpora:
            for start, stop in pairwise(corpus.shard_row_starts.tolist()):
                lengths = corpus.row_lengths(start, stop)
                if lengths.max(initial=0) > tokens:
                    row = int(np.argmax(lengths > tokens))
                    raise ConfigError(
                        f"token_budget.tokens: {corpus.path}, row {start + row} has {lengths[row]} tokens, and "
                        f"no micro-batch of {tokens} has room for it; raise tokens, or cut or leave out such rows"
                    )
