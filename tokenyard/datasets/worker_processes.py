"""Work done ahead by worker processes: a `DataLoader` of torch that is asked for whole micro-batches, in order."""

import multiprocessing
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tokenyard.datasets.batches import MicroBatch
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.failures import Failure, attempt
from tokenyard.datasets.handover import Parcel, Receiver, Sender
from tokenyard.datasets.sampler import EpochRun, RankSampler, Request
from tokenyard.datasets.streaming.fetch_ahead import FetchAhead
from tokenyard.datasets.watching import Watcher
from tokenyard.errors import ConfigError, StorageError
from tokenyard.stages import measured

Batch = dict[str, Tensor]
#: What a worker is sent: the epoch's number, the micro-batch, whether to say what is padding, whether to measure.
Taken = tuple[int, MicroBatch, bool, bool]

#: What a socket's path may have on Linux, the zero at its end not counted.
_SOCKET_PATH_BYTES = 107


#: Gives the requests of an epoch, each when what it reads is there.
Fetched = Callable[[EpochRun, Iterator[Request]], FetchAhead]


class WorkerProcesses:
    """Epochs of a rank, read by worker processes. With ``fetched``, they get what that has brought first.

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
        fetched: Fetched | None = None,
    ) -> None:
        _check_temporary_folder()
        self._requests = _Requests(sampler, fetched)
        self._persistent = persistent_workers
        self._pin_memory = pin_memory
        self.watcher: Watcher | None = None
        self._begun = 0
        self._loader: DataLoader[Parcel | Failure] = DataLoader(
            # While a batch is received, its worker has been asked for `prefetch_factor` more.
            _WholeBatches(dataset, num_pieces=1 + prefetch_factor),
            batch_sampler=self._requests,  # type: ignore[arg-type]  # torch hands on what it yields as it is
            collate_fn=_as_it_is,
            num_workers=num_workers,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            multiprocessing_context=multiprocessing_context,
            worker_init_fn=_end_with_parent,
            # torch draws a seed for its workers each epoch. Drawn from the global generator it would change the
            # dropout of a model by how its data are loaded.
            generator=torch.Generator(),
        )
        # The finalizer holds torch's loader, and so its queues, until this object is gone.
        weakref.finalize(self, _end_persistent, self._loader).atexit = False

    def epoch(self, run: EpochRun) -> Generator[tuple[Request, Batch | Failure]]:
        """Yield the micro-batches of an epoch; a failure where a worker met an error of ours."""
        self._begun += 1
        mine = self._requests.epoch = self._begun
        self._requests.run = run
        self._requests.is_measured = self.watcher is not None
        sent = self._requests.sent = deque[Request]()
        receiver = Receiver()
        batches = iter(self._loader)
        try:
            for parcel in _noting(batches, run, sent):
                if isinstance(parcel, Failure):
                    yield sent.popleft(), parcel
                else:
                    watcher = self.watcher
                    if parcel.times is not None and watcher is not None:
                        watcher.made(parcel.times)
                    yield sent.popleft(), receiver.receive(parcel, pin_memory=self._pin_memory)
                if self._persistent and mine != self._begun:
                    raise ConfigError(
                        "loader.persistent_workers: another epoch was begun while this one was being read, and both "
                        "would share the same workers; end one loop first, or set persistent_workers to false"
                    )
            if self._requests.failed is not None:
                raise self._requests.failed
        finally:
            self._requests.close(mine)
            if not self._persistent:
                _end(batches)


def _check_temporary_folder() -> None:
    """Refuse where workers could send nothing, and the loop would wait for them for ever.

    Python hands shared memory over by a socket in `TMPDIR/pymp-xxxxxxxx/listener-xxxxxxxx`, and the system allows 107
    bytes for its path.
    """
    folder = tempfile.gettempdir()
    room = _SOCKET_PATH_BYTES - len("/pymp-xxxxxxxx/listener-xxxxxxxx")
    if len(os.fsencode(folder)) > room:
        raise ConfigError(
            f"loader.num_workers: workers send batches by sockets in the temporary folder, and {folder} is too long a "
            f"path for that: {len(os.fsencode(folder))} bytes, at most {room} fit; set TMPDIR to a shorter path, or "
            "num_workers to 0"
        )


class _WholeBatches(Dataset[Parcel | Failure]):
    """What workers run: a micro-batch in, its tensors out.

    An error of ours is sent as it is. One that is raised, torch would make one of that holds a worker's whole stack as
    its message.
    """

    def __init__(self, dataset: TokenDataset, num_pieces: int) -> None:
        self._dataset = dataset
        self._num_pieces = num_pieces
        self._epoch = 0
        self._sender = Sender(num_pieces)

    def __getitems__(self, taken: Taken) -> Parcel | Failure:
        epoch, micro_batch, with_mask, is_measured = taken
        if epoch != self._epoch:
            # Of an epoch that was left early, the receiver has not seen all parcels, so maybe not all of the memory.
            self._epoch, self._sender = epoch, Sender(self._num_pieces)
        if not is_measured:
            return attempt(lambda: self._parcel(micro_batch, with_mask))
        parcel, times = measured(lambda: attempt(lambda: self._parcel(micro_batch, with_mask)))
        return parcel if isinstance(parcel, Failure) else replace(parcel, times=times)

    def _parcel(self, micro_batch: MicroBatch, with_mask: bool) -> Parcel:
        return self._sender.send(self._dataset.micro_batch(micro_batch, with_mask=with_mask))


class _Requests:
    """The micro-batches of the epoch that was set last; those that torch has taken are in `sent`, in its order.

    What the sampler raises ends the epoch and is kept in `failed`: torch fetches ahead, and would raise it too early.
    """

    def __init__(self, sampler: RankSampler, fetched: Fetched | None) -> None:
        self._sampler = sampler
        self._fetched = fetched
        self._coming: dict[int, Iterator[Request]] = {}
        self.run: EpochRun | None = None
        self.is_measured = False
        self.epoch = 0
        self.sent: deque[Request] = deque()
        self.failed: Exception | None = None

    def __len__(self) -> int:
        return len(self._sampler)

    def close(self, epoch: int) -> None:
        """End what brings the requests of an epoch, and of no other: another loop may be at one."""
        coming = self._coming.pop(epoch, None)
        if isinstance(coming, Generator):
            coming.close()

    def __iter__(self) -> Iterator[Taken]:
        run, epoch, sent, is_measured = self.run, self.epoch, self.sent, self.is_measured
        self.failed = None
        if run is None:
            return
        requests = self._sampler.requests(run)
        if self._fetched is not None:
            requests = self._fetched(run, requests).run()
        self._coming[epoch] = requests
        try:
            for request in requests:
                sent.append(request)
                yield epoch, request.micro_batch, request.with_mask, is_measured
        except Exception as e:  # noqa: BLE001  # raised by `epoch`, when all before it were given out
            self.failed = e


def _noting(batches: Iterator[Parcel | Failure], run: EpochRun, sent: deque[Request]) -> Iterator[Parcel | Failure]:
    """Note at an error which micro-batch was waited for: the first of those sent, since they come in their order.

    A note that a worker makes would be lost, as torch sends on an error's type and message.
    """
    try:
        try:
            yield from batches
        except (ConnectionError, EOFError):
            raise StorageError(
                "a worker process ended while it handed over a batch; where the system killed it for want of memory, "
                "lower loader.num_workers, loader.prefetch_factor, or the micro-batch"
            ) from None
    except Exception as e:
        if sent:
            e.add_note(sent[0].note(run))
        raise


def _end_persistent(loader: DataLoader[Any]) -> None:
    _end(getattr(loader, "_iterator", None))


def _end(batches: Any) -> None:
    """Tell workers to go, and wait for them.

    Torch does so when its iterator is deleted. A traceback may keep that alive, and the garbage collector, which takes
    it in the end, first ends the queues by which workers are told.
    """
    end = getattr(batches, "_shutdown_workers", None)
    if end is not None:
        end()


def _end_with_parent(worker_id: int) -> None:
    """Let a worker end when its rank is killed, at any moment.

    Torch's own watch compares parents, so it never notices a rank that died before the worker came to look, and its
    exit waits for ever where the pipe to the dead rank is full.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), name=f"worker {worker_id}: parent", daemon=True).start()


def _exit_after(process: Any) -> None:
    process.join()
    os._exit(1)


def _as_it_is(batch: Any) -> Any:
    return batch
