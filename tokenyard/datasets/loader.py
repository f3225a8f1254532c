"""From settings to batches: the dataset, the order, the rank's part of it, and what reads ahead."""

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from tokenyard.config import LoaderConfig, TrainConfig, load_config
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.datasets.assemble import assemble
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.environment import find_rank
from tokenyard.datasets.order import resolve
from tokenyard.datasets.partition import Partition
from tokenyard.datasets.prefetch import in_order
from tokenyard.datasets.sampler import RankSampler
from tokenyard.datasets.worker_processes import WorkerProcesses

_PREFETCH_FACTOR = 4


class TokenLoader:
    """The batches of one rank, epoch by epoch; made by `build_dataloader`.

    Each iteration gives the micro-batches of one epoch as dicts of tensors (see `TokenDataset`), and the next one those
    of the next epoch, also after a loop that was left early. The same settings give the same batches with any number of
    threads or workers.

    Attributes:
        dataset: where samples come from.
        sampler: which samples, in which order.
    """

    def __init__(self, dataset: TokenDataset, sampler: RankSampler, settings: LoaderConfig | None = None) -> None:
        settings = settings or LoaderConfig()
        self.dataset = dataset
        self.sampler = sampler
        self._num_threads = settings.num_threads
        self._prefetch_factor = settings.prefetch_factor or _PREFETCH_FACTOR
        self._pin_memory = _pins_memory(settings)
        self._workers: WorkerProcesses | None = None
        if settings.num_workers:
            self._workers = WorkerProcesses(
                dataset,
                sampler,
                num_workers=settings.num_workers,
                prefetch_factor=self._prefetch_factor,
                pin_memory=self._pin_memory,
                persistent_workers=settings.persistent_workers,
                multiprocessing_context=settings.multiprocessing_context,
            )

    @property
    def micro_batches_per_step(self) -> int:
        """Micro-batches that make this rank's part of a global batch: the steps of gradient accumulation."""
        return self.sampler.partition.num_micro_batches

    def __len__(self) -> int:
        """Return the micro-batches of an epoch on this rank, the same on all ranks."""
        return len(self.sampler)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin this epoch. Without it, iterations count epochs from 0."""
        self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Begin the next epoch."""
        epoch = self.sampler.take_epoch()
        if self._workers is not None:
            return self._workers.epoch(epoch)
        ahead = self._num_threads * self._prefetch_factor
        return in_order(lambda index: self._load(epoch, index), len(self), self._num_threads, ahead)

    def _load(self, epoch: int, index: int) -> dict[str, Tensor]:
        try:
            micro_batch = self.sampler.micro_batch(epoch, index)
            return assemble(
                self.dataset, micro_batch, with_mask=self.sampler.last_batch == "pad", pin_memory=self._pin_memory
            )
        except Exception as e:
            e.add_note(f"while loading micro-batch {index} of epoch {epoch} on rank {self.sampler.partition.rank}")
            raise


def build_dataloader(
    config: str | os.PathLike[str] | Mapping[str, Any] | TrainConfig,
    rank: int | None = None,
    world_size: int | None = None,
) -> TokenLoader:
    """Return the loader that settings describe.

    Args:
        config: a YAML file, a mapping of the same keys, or a TrainConfig.
        rank: this process among those that train on different data; found by `find_rank` when not given.
        world_size: how many these are; give both or neither.

    Raises:
        ConfigError: names the key that is unknown, has a wrong value, or doesn't fit the corpus or the world size.
        StorageError: the corpus can't be read, or is not whole.
        DataError: what it holds is damaged.
    """
    settings = load_config(config)
    rank, world_size = find_rank(rank, world_size)
    sample, order = settings.data.sample, settings.order
    dataset = TokenDataset(
        _open(settings),
        sample.seq_len,
        sample.mode,
        sample.labels,
        boundaries=sample.boundaries,
        mask_boundaries=sample.mask_boundaries,
    )
    partition = Partition(
        rank=rank,
        world_size=world_size,
        global_batch_size=order.global_batch_size,
        micro_batch_size=settings.loader.micro_batch_size or max(1, order.global_batch_size // world_size),
    )
    resolved = resolve(
        num_samples=len(dataset),
        global_batch_size=order.global_batch_size,
        seed=order.seed,
        shuffle=order.shuffle,
        block_samples=order.block_samples,
        window_blocks=None if order.window_blocks == "auto" else order.window_blocks,
        lanes=None if order.lanes == "auto" else order.lanes,
    )
    sampler = RankSampler(len(dataset), resolved, partition, order.last_batch)
    return TokenLoader(dataset, sampler, settings.loader)


def _open(settings: TrainConfig) -> Corpus:
    data = settings.data
    return open_corpus(
        data.path,
        format=data.format,
        cache_bytes=settings.loader.cache_bytes,
        tokens=data.tokens,
        token_dtype=data.token_dtype,
        fields=None if data.fields is None else tuple(data.fields),
        split=data.split,
    )


def _pins_memory(settings: LoaderConfig) -> bool:
    if settings.pin_memory is False or torch.cuda.is_available():
        return settings.pin_memory is not False
    if settings.pin_memory is True:
        warnings.warn(
            "loader.pin_memory is true, but there is no CUDA device: batches lie in ordinary memory; pin_memory: auto "
            "pins where it helps",
            stacklevel=3,
        )
    return False
