"""From settings to batches: the dataset, the order, the rank's part of it, and what reads ahead."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tokenyard.config import LoaderConfig, TrainConfig, load_config
from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.environment import find_rank, ranks_of_node
from tokenyard.datasets.failures import Failure, attempt
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.prefetch import in_order
from tokenyard.datasets.read_ahead import looking_ahead
from tokenyard.datasets.sampler import EpochRun, RankSampler, Request
from tokenyard.datasets.streaming.smallest import check_cache
from tokenyard.datasets.streaming.stream import Stream
from tokenyard.datasets.streaming.tiles import cache_of
from tokenyard.datasets.streaming.uses import NodeRank
from tokenyard.datasets.transforms import Transform, check_sendable
from tokenyard.datasets.watching import Given, Watcher
from tokenyard.datasets.worker_processes import WorkerProcesses
from tokenyard.stages import measured
from tokenyard.storage.cache import Counts

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: Micro-batches that each thread or worker is ahead, unless settings say otherwise.
PREFETCH_FACTOR = 4


class TokenLoader:
    """The batches of one rank, epoch by epoch; made by `build_dataloader`.

    Each iteration gives the micro-batches of one epoch as dicts of tensors (see `TokenDataset`), and the next one those
    of the next epoch, also after a loop that was left early. The same settings give the same batches with any number of
    threads or workers.

    `state_dict` and `load_state_dict` stop and go on with a run, exactly, at any global batch.

    Attributes:
        dataset: where samples come from.
        sampler: which samples, in which order.
        settings: how many threads or workers it has, and how far they are ahead.
        pins_memory: whether batches lie in page-locked memory.
        of_mesh: whether the ranks are those of a part of a device mesh, so that more processes may share each.
    """

    def __init__(
        self,
        dataset: TokenDataset,
        sampler: RankSampler,
        settings: LoaderConfig | None = None,
        *,
        of_mesh: bool = False,
    ) -> None:
        settings = settings or LoaderConfig()
        self.of_mesh = of_mesh
        self.dataset = dataset
        self.sampler = sampler
        self.settings = settings
        self._num_threads = settings.num_threads
        self._prefetch_factor = settings.prefetch_factor or PREFETCH_FACTOR
        self.pins_memory = _pins_memory(settings)
        self._watcher: Watcher | None = None
        cache = cache_of(dataset)
        self._stream = None if cache is None else Stream(dataset, sampler, cache)
        self._workers: WorkerProcesses | None = None
        if settings.num_workers:
            self._workers = WorkerProcesses(
                dataset,
                sampler,
                num_workers=settings.num_workers,
                prefetch_factor=self._prefetch_factor,
                pin_memory=self.pins_memory,
                persistent_workers=settings.persistent_workers,
                multiprocessing_context=settings.multiprocessing_context,
                fetched=None if self._stream is None else self._stream.fetched,
            )

    @property
    def cache_counts(self) -> Counts | None:
        """What was fetched, read from the cache and waited for since the loader was made, by this rank and its workers.

        None where no corpus is read through a cache.
        """
        return None if self._stream is None else self._stream.counts

    @property
    def micro_batches_per_step(self) -> int:
        """Micro-batches that make this rank's part of the next global batch: the steps of gradient accumulation."""
        return self.sampler.batches.num_micro_batches(self.step, self.step + 1)

    @property
    def rank(self) -> int:
        """This rank."""
        return self.sampler.batches.rank

    @property
    def world_size(self) -> int:
        """Data-parallel ranks."""
        return self.sampler.batches.world_size

    @property
    def step(self) -> int:
        """Where in the run the next step lies, counted from 0 over all epochs.

        It grows by one with each global batch that was given out whole. The iteration after a loop that was left early,
        and `set_epoch`, jump to the start of an epoch, whether or not the steps before it were run.
        """
        return self.sampler.step

    @property
    def epoch(self) -> int:
        """The epoch in which the next step lies."""
        return self.sampler.epoch

    def __repr__(self) -> str:
        return f"TokenLoader({self.dataset!r}, {self.sampler.told()})"

    def __len__(self) -> int:
        """Return the micro-batches of an epoch on this rank, the same on all ranks."""
        return len(self.sampler)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin this epoch. Without it, iterations count epochs from 0.

        The epoch in whose middle `load_state_dict` goes on is gone on with; another one begins at its start.
        """
        self.sampler.set_epoch(epoch)

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return where the run stands, as JSON values, the same on all ranks.

        It counts what was given out, not what was read ahead. A state lies between global batches: taken between the
        micro-batches of one, it is the one before, and `micro_batches_past` says how many will come again.

        Args:
            step: the steps of the run that are done, by a trainer that knows better; counted over all epochs.
        """
        return self.sampler.state_dict(step)

    def load_state_dict(self, state: Mapping[str, Any], *, new_segment: bool = False) -> None:
        """Let the next iteration go on where a state was taken, in the middle of its epoch.

        Takes the same time however far the run has come. The number of ranks, micro-batches, threads and workers, the
        format and the path of the corpus may have changed.

        Args:
            state: what `state_dict` gave on any rank.
            new_segment: whether settings that differ (weights, sources, global batch, sequence length) take effect from
                here on. What the epoch has given is not given again.

        Raises:
            ConfigError: the state belongs to another corpus, seed, order or global batch; the message names which.
        """
        self.sampler.load_state_dict(state, new_segment=new_segment)

    @property
    def prefetch_factor(self) -> int:
        """Batches that each thread or worker is ahead."""
        return self._prefetch_factor

    def watch(self, watcher: Watcher | None) -> None:
        """Tell a watcher of all batches from the next iteration on, or nobody; it takes the place of the one before."""
        self._watcher = watcher
        if self._workers is not None:
            self._workers.watcher = watcher

    def steps(self) -> Iterator[list[dict[str, Tensor]]]:
        """Begin the next epoch with its first step, and yield the micro-batches of one optimizer step after another."""
        return _by_steps(self._given_out())

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Begin the next epoch, when its first batch is asked for."""
        return _without_requests(self._given_out())

    def _given_out(self) -> Given:
        watcher = self._watcher
        return self._epoch() if watcher is None else watcher.passing(self._epoch())

    def _epoch(self) -> Given:
        """Begin the next epoch, and yield its micro-batches.

        It begins when the first one is asked for, and not before: Lightning makes an iterator only to see that it can,
        and names the epoch after it made the one that it uses.
        """
        run = self.sampler.begin()
        if self._workers is not None:
            batches = self._workers.epoch(run)
        else:
            ahead = self._num_threads * self._prefetch_factor
            requests = self.sampler.requests(run)
            if self._num_threads:
                requests = looking_ahead(requests, self.dataset)
            if self._stream is None:
                batches = in_order(lambda r: self._load(run, r), requests, self._num_threads, ahead)
            else:
                fetched = self._stream.fetched(run, requests)
                batches = in_order(lambda r: self._load(run, r), fetched.run(), self._num_threads, ahead, fetched.leave)
        with closing(batches):  # what works ahead ends at an error too, whose traceback would hold it
            for request, batch in batches:
                if isinstance(batch, Failure):
                    raise batch.noted(request.note(run)) from None
                self.sampler.given_out(run, request)
                if self._stream is not None and request.step_done:
                    self._stream.given_out()
                yield request, batch
                del batch  # while the next one is waited for, only the caller holds it

    def _load(self, run: EpochRun, request: Request) -> dict[str, Tensor] | Failure:
        load = partial(
            self.dataset.micro_batch, request.micro_batch, with_mask=request.with_mask, pin_memory=self.pins_memory
        )
        try:
            watcher = self._watcher
            if watcher is None:
                return attempt(load)
            batch, times = measured(lambda: attempt(load))
            watcher.made(times)
            return batch
        except Exception as e:
            e.add_note(request.note(run))
            raise


def _by_steps(given_out: Iterator[tuple[Request, dict[str, Tensor]]]) -> Iterator[list[dict[str, Tensor]]]:
    micro_batches: list[dict[str, Tensor]] = []
    for request, batch in given_out:
        micro_batches.append(batch)
        if request.step_done:
            yield micro_batches
            micro_batches = []


def _without_requests(given_out: Iterator[tuple[Request, dict[str, Tensor]]]) -> Iterator[dict[str, Tensor]]:
    for _, batch in given_out:
        yield batch
        del batch  # while the next one is waited for, only the caller holds it


def build_dataloader(
    config: str | os.PathLike[str] | Mapping[str, Any] | TrainConfig,
    rank: int | None = None,
    world_size: int | None = None,
    *,
    mesh: "DeviceMesh | None" = None,
    transform: Transform | None = None,
) -> TokenLoader:
    """Return the loader that settings describe.

    Args:
        config: a YAML file, a mapping of the same keys, or a TrainConfig.
        rank: this process among those that train on different data; found by `find_rank` when not given.
        world_size: how many these are; give both or neither.
        mesh: in place of both, the data-parallel part of a device mesh, such as `mesh["dp"]`.
        transform: what is done to each sample before its labels are made (see `Transform`), with random numbers of
            `order.seed`, the epoch and the sample.

    Raises:
        ConfigError: names the key that is unknown, has a wrong value, or doesn't fit the corpus or the world size.
        StorageError: the corpus can't be read, or is not whole.
        DataError: what it holds is damaged.
    """
    settings = load_config(config)
    rank, world_size = find_rank(rank, world_size, mesh=mesh)
    if transform is not None and settings.loader.num_workers:
        check_sendable(transform, settings.loader.multiprocessing_context)
    dataset = open_dataset(settings, transform)
    batches = make_batches(settings, dataset, rank, world_size)
    if (cache := cache_of(dataset)) is not None:
        ranks = [NodeRank(other, world_size) for other in ranks_of_node(rank, world_size)]
        check_cache(cache.max_bytes, dataset, batches, ranks, steps_ahead(settings.loader, batches))
    return TokenLoader(dataset, RankSampler(batches), settings.loader, of_mesh=mesh is not None)


def steps_ahead(settings: LoaderConfig, batches: Batches) -> int:
    """Return in how many steps micro-batches may lie that are read at the same time."""
    readers = settings.num_workers or settings.num_threads
    read_ahead = 1 + readers * (settings.prefetch_factor or PREFETCH_FACTOR)
    return 1 + -(-read_ahead // batches.num_micro_batches(0, 1))


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
