"""The ranks of a node in a process each, which try out what they are told until there is nothing more."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

import torch

from tokenyard.datasets.transforms import Transform
from tokenyard.doctor.trial import TrialJob, try_out
from tokenyard.errors import BenchmarkError

#: What a rank says when it could begin.
READY = "ready"
#: Seconds between two looks at whether the process that began a rank is still there.
_LOOK_S = 0.2


def run_ranks(told: Sequence[Connection], transform: Transform | None, gpus: int, world_size: int) -> None:
    """Run rank 0 in this process, and fork the others, so that all of them import what they need once.

    Args:
        told: for each rank, where jobs come from.
        transform: what the job hands to `build_dataloader`.
        gpus: ranks on this node, which is the job's first.
        world_size: of the job.
    """
    context = multiprocessing.get_context("fork")
    # No daemons, which may have no workers of their own.
    forked = [
        context.Process(target=_run_rank, args=(told, transform, k, gpus, world_size)) for k in range(1, len(told))
    ]
    for process in forked:
        process.start()
    _run_rank(told, transform, 0, gpus, world_size)
    for process in forked:
        process.join()


def _run_rank(told: Sequence[Connection], transform: Transform | None, rank: int, gpus: int, world_size: int) -> None:
    """Take jobs, each answered by READY, a word to begin, and the trial or the error that it ended with."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for other, connection in enumerate(told):
        if other != rank:
            connection.close()  # so that the end of any process is seen
    mine = told[rank]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the one who tells what to do
    # As torchrun would: ranks of a node share a cache by it.
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(gpus))
    torch.set_num_threads(1)
    if torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())
    try:
        while True:
            mine.send(_answer(mine, mine.recv(), transform, rank))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _answer(told: Connection, job: TrialJob, transform: Transform | None, rank: int) -> object:
    def begin() -> None:
        told.send(READY)
        told.recv()

    try:
        return try_out(job, transform, rank, begin)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise
    except Exception as e:  # noqa: BLE001  # raised where the job came from
        try:
            pickle.loads(pickle.dumps(e))
        except Exception:  # noqa: BLE001  # an error of a user's own, that holds what can't be sent
            return BenchmarkError(f"rank {rank}: {type(e).__name__}: {e}")
        return e


def _end_with_parent() -> None:
    """End in the middle of a trial too, when the process ends that began this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        # Its end can't be waited for alone: what tells it is open in ranks that were forked later, and their workers.
        while os.getppid() == parent.pid:
            parent.join(_LOOK_S)
        os._exit(1)
