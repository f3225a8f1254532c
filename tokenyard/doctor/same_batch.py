"""An order in which one micro-batch comes over and over: what a loader gives when storage costs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tokenyard.datasets.sampler import EpochRun, RankSampler, Request


class SameBatch(RankSampler):
    """The steps of a run, each micro-batch of which takes the samples of the first one."""

    def requests(self, run: EpochRun) -> Iterator[Request]:
        """Yield the requests of an epoch."""
        first = None
        for request in super().requests(run):
            if first is None:
                first = request.micro_batch
            yield request._replace(micro_batch=first)
