"""Work done ahead by worker processes: a `DataLoader` of torch that is asked for whole micro-batches, in order."""

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tokenyard.datasets.assemble import assemble
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.sampler import MicroBatch, RankSampler
from tokenyard.errors import ConfigError

Batch = dict[str, Tensor]


class WorkerProcesses:
    """Epochs of a rank, read by worker processes.

    With `persistent_workers` one set of processes serves all epochs, one at a time: beginning another epoch ends the
    one before it, whose iterator then raises ConfigError.
    """

    def __init__(
        self,
        dataset: TokenDataset,
        sampler: RankSampler,
        *,
        num_workers: int,
        prefetch_factor: int,
        pin_memory: bool,
        persistent_workers: bool,
        multiprocessing_context: str | None,
    ) -> None:
        self._requests = _Requests(sampler)
        self._persistent = persistent_workers
        self._begun = 0
        self._loader: DataLoader[Batch] = DataLoader(
            _WholeBatches(dataset, with_mask=sampler.last_batch == "pad"),
            batch_sampler=self._requests,  # type: ignore[arg-type]  # torch hands on what it yields as it is
            collate_fn=_as_it_is,
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            pin_memory=pin_memory,
            persistent_workers=persistent_workers,
            multiprocessing_context=multiprocessing_context,
            # torch draws a seed for its workers each epoch. Drawn from the global generator it would change the
            # dropout of a model by how its data are loaded.
            generator=torch.Generator(),
        )
        # The finalizer holds torch's loader, and so its queues, until this object is gone.
        weakref.finalize(self, _end_persistent, self._loader).atexit = False

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the micro-batches of an epoch."""
        self._begun += 1
        mine = self._begun
        self._requests.epoch = epoch
        batches = iter(self._loader)
        try:
            for batch in batches:
                yield batch
                if self._persistent and mine != self._begun:
                    raise ConfigError(
                        "loader.persistent_workers: another epoch was begun while this one was being read, and both "
                        "would share the same workers; end one loop first, or set persistent_workers to false"
                    )
        finally:
            if not self._persistent:
                _end(batches)


class _WholeBatches(Dataset[Batch]):
    """What workers run: a micro-batch in, its tensors out."""

    def __init__(self, dataset: TokenDataset, with_mask: bool) -> None:
        self._dataset = dataset
        self._with_mask = with_mask

    def __getitems__(self, request: MicroBatch) -> Batch:
        return assemble(self._dataset, request, with_mask=self._with_mask)


class _Requests:
    """The micro-batches of the epoch that was set last."""

    def __init__(self, sampler: RankSampler) -> None:
        self._sampler = sampler
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[MicroBatch]:
        epoch = self.epoch
        return (self._sampler.micro_batch(epoch, index) for index in range(len(self)))


def _end_persistent(loader: DataLoader[Batch]) -> None:
    _end(getattr(loader, "_iterator", None))


def _end(batches: Any) -> None:
    """Tell workers to go, and wait for them.

    Torch does so when its iterator is deleted. A traceback may keep that alive, and the garbage collector, which takes
    it in the end, first ends the queues by which workers are told.
    """
    end = getattr(batches, "_shutdown_workers", None)
    if end is not None:
        end()


def _as_it_is(batch: Any) -> Any:
    return batch
