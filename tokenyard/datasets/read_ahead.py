"""The order is known, so a loader has what it reads next fetched from disk while it still works on what came before."""

from collections import deque
from collections.abc import Iterator
from functools import partial

import numpy as np

from tokenyard.corpus.read_ahead import ReadAhead
from tokenyard.datasets.batches import MicroBatch
from tokenyard.datasets.daemons import Daemons
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.pieces import row_ranges
from tokenyard.datasets.sampler import Request

#: How far the disk is ahead, in bytes of samples: some seconds of training, which even out that order blocks are begun
#: many at a time. It is page cache, which the system takes back when it needs to.
_AHEAD_BYTES = 256 << 20
_MAX_REQUESTS = 4096
#: Micro-batches looked at together.
_GROUP = 16


def looking_ahead(requests: Iterator[Request], dataset: TokenDataset) -> Iterator[Request]:
    """Yield requests as they come, some of them late: in the meantime the system is asked for what they read.

    It begins with two requests taken for each one yielded, so that the first is not late.

    What `requests` raises comes in its turn. What fails while reading ahead fails again, and is told, where it is read.
    """
    waiting: deque[Request] = deque()
    group: list[MicroBatch] = []
    failure: Exception | None = None
    ends = False
    ahead = _MAX_REQUESTS
    readers = [corpus.read_ahead() for corpus in dataset.corpora]
    asking = Daemons(1, "tokenyard-read-ahead")
    try:
        while True:
            needless = all(reader.is_needless for reader in readers)
            for _ in range(2 if len(waiting) < ahead and not needless else 1):
                try:
                    request = next(requests)
                except StopIteration:
                    ends = True
                    break
                except Exception as e:  # noqa: BLE001  # raised below, after the requests before it
                    failure, ends = e, True
                    break
                waiting.append(request)
                if not needless:
                    group.append(request.micro_batch)
                    ahead = min(_MAX_REQUESTS, _AHEAD_BYTES // max(1, _num_bytes(request.micro_batch, dataset)))
                if len(group) >= _GROUP:
                    asking.submit(partial(_ask, group, dataset, readers))
                    group = []
            if waiting:
                yield waiting.popleft()
            elif failure is not None:
                raise failure
            elif ends:
                return
    finally:
        asking.end()


def _ask(batches: list[MicroBatch], dataset: TokenDataset, readers: list[ReadAhead]) -> None:
    """Ask for all samples of some micro-batches."""
    for seq_len in {batch.seq_len for batch in batches}:
        sized = dataset if seq_len is None else dataset.with_seq_len(seq_len)
        ids = np.concatenate([batch.sample_ids for batch in batches if batch.seq_len == seq_len])
        sources, samples = sized.locate(ids)
        for k in np.unique(sources).tolist():
            mine = samples[sources == k]
            if sized.mode == "rows":
                starts, stops = row_ranges(sized.corpora[k], mine)
            else:
                assert sized.seq_len is not None
                starts = mine * sized.seq_len
                stops = starts + sized.seq_len
            some = stops > starts
            readers[k].tokens(starts[some], stops[some])


def _num_bytes(batch: MicroBatch, dataset: TokenDataset) -> int:
    """About as many bytes as the tokens of a micro-batch take."""
    tokens = sum(corpus.num_tokens for corpus in dataset.corpora)
    size = max(np.dtype(corpus.schema.token_dtype).itemsize for corpus in dataset.corpora)
    seq_len = batch.seq_len or tokens // max(1, len(dataset))
    return len(batch.sample_ids) * seq_len * size
