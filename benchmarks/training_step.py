"""The loader under a training step of 5 ms: how long steps wait for data, and how long the GIL is held meanwhile.

A step either sleeps (the GPU works) or computes with torch on one core (this process works, and releases the GIL).
A step waits when the next batch takes over 1 ms to come; the first batch, and the code that is loaded for it, which
keeps the GIL for some 100 ms, is left out. Prefetching is the default: two threads.

How long the GIL is held is seen by another thread of the process, which sleeps for 0.2 ms and looks how much later it
runs again: to run, it needs the GIL. A thread is also late when no core is free, for it or for the one that has the
GIL; Linux counts that time for each thread (`schedstat`), and it is taken off. What is left of a busy machine, such as
a hypervisor that took the core away, is seen by a thread of another process that does the same at the same time; its
lateness is told beside, and figures are good only where it is small. Python's threads give the GIL up after 5 ms when
another asks for it (`sys.getswitchinterval`); what takes longer than 2 ms here is either Python code that runs on, or
one call of compiled code that keeps the GIL::

    python benchmarks/training_step.py --formats npy parquet
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import corpora, results
from tokenyard.datasets.loader import TokenLoader

QUICK = ["--rows", "2048", "--steps", "40"]
STEP_SECONDS = 0.005
WAIT_SECONDS = 0.001
GIL_MS = 2.0
_NAP_SECONDS = 0.0002
#: Prints lateness in milliseconds, of naps until its input ends.
_OUTSIDE = """
import sys, threading, time
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
late = []
while not (late and done.is_set()):
    started = time.perf_counter()
    time.sleep({nap})
    late.append(1e3 * (time.perf_counter() - started - {nap}))
print(sorted(late)[-max(1, len(late) // 1000)], max(late))
"""


def waited_for_a_core() -> float:
    """Milliseconds that Python's threads of this process were ready to run while no core was free."""
    spent = 0
    for thread in threading.enumerate():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            spent += int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[1])
    return spent / 1e6


class Probe:
    """Measures how late a thread of this process runs again, and one of another process, while a block runs.

    Attributes:
        late: milliseconds that the thread was late for want of the GIL, each time so far.
        inside: milliseconds that it was late for want of the GIL: the 99.9th percentile and the largest.
        outside: milliseconds that the other process was late.
    """

    late: list[float]
    inside: tuple[float, float]
    outside: tuple[float, float]

    def __enter__(self) -> Probe:
        self.late = []
        self._done = threading.Event()
        self._other = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _OUTSIDE.format(nap=_NAP_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        before = waited_for_a_core()
        while not (self.late and self._done.is_set()):
            started = time.perf_counter()
            time.sleep(_NAP_SECONDS)
            late = 1e3 * (time.perf_counter() - started - _NAP_SECONDS)
            waited = waited_for_a_core()
            self.late.append(max(0.0, late - max(0.0, waited - before)))
            before = waited

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        said, _ = self._other.communicate()
        high, most = map(float, said.split())
        self.outside = high, most
        self.inside = float(np.percentile(self.late, 99.9)), max(self.late)


def busy(seconds: float) -> None:
    """Compute with torch, which releases the GIL, for so long."""
    matrix = torch.ones(128, 128)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        matrix = (matrix @ matrix).clamp_(max=1.0)


STEPS: dict[str, Callable[[float], None]] = {"sleeping": time.sleep, "computing": busy}


def begun(path: Path, batch_size: int) -> tuple[TokenLoader, Iterator[Any]]:
    """A loader, and its batches after the first one: all code is loaded by then, which takes the GIL for long."""
    settings = corpora.settings(path, batch_size=batch_size, sample={"mode": "rows"})
    loader = tokenyard.build_dataloader(settings, rank=0, world_size=1)
    batches = iter(loader)
    next(batches)
    return loader, batches


def waits(loader: TokenLoader, batches: Iterator[Any], step: Callable[[float], None], num_steps: int) -> list[float]:
    """Seconds that each step waited for its batch."""
    found: list[float] = []
    step(STEP_SECONDS)
    while len(found) < num_steps:
        started = time.perf_counter()
        if next(batches, None) is None:
            batches = iter(loader)
            next(batches)  # as at the start, an epoch's first batch is not counted
            continue
        found.append(time.perf_counter() - started)
        step(STEP_SECONDS)
    return found


def measure(path: Path, format: str, batch_size: int, num_steps: int) -> Iterator[results.Result]:
    """Each kind of step."""
    for name, step in STEPS.items():
        loader, batches = begun(path, batch_size)
        with Probe() as probe:
            seconds = waits(loader, batches, step, num_steps)
        milliseconds = 1e3 * np.array(seconds)
        case = f"{format}, batch {batch_size}, {name} step"
        yield results.Result(
            work="training step",
            case=case,
            measured=float((milliseconds > 1e3 * WAIT_SECONDS).sum()),
            unit=f"of {len(milliseconds)} steps waited",
            bar=0,
            at_most=True,
            rates={
                "wait ms, median": float(np.median(milliseconds)),
                "wait ms, p99": float(np.percentile(milliseconds, 99)),
                "wait ms, most": float(milliseconds.max()),
            },
        )
        yield results.Result(
            work="GIL held",
            case=case,
            measured=probe.inside[1],
            unit=f"ms at most, {probe.outside[1]:.1f} in another process",
            bar=GIL_MS,
            at_most=True,
            rates={
                "p99.9 ms": probe.inside[0],
                "in another process, p99.9 ms": probe.outside[0],
                "in another process, most ms": probe.outside[1],
            },
        )


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format at each batch size."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, default=corpora.ROWS)
    parser.add_argument("--seq-len", type=int, default=corpora.SEQ_LEN)
    parser.add_argument("--shards", type=int, default=corpora.SHARDS)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset", "parquet"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--steps", type=int, default=379)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tokens = corpora.zipf_rows(args.rows, args.seq_len)
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for format in args.formats:
            corpora.write_rows(Path(folder) / format, format, tokens, args.shards)
            for batch_size in args.batch_sizes:
                found += measure(Path(folder) / format, format, batch_size, args.steps)
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
