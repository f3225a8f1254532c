"""`tokenyard.Monitor`: tells in a running job whether it waits for its data, why, and which setting to change."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TextIO

from torch import Tensor

from tokenyard.datasets.loader import TokenLoader
from tokenyard.errors import ConfigError
from tokenyard.monitor.collector import Collector
from tokenyard.monitor.ranks import RankBoard, RankWindow, process_rank, straggler
from tokenyard.monitor.report import Report, Summary
from tokenyard.monitor.sinks import JsonLines, Lines, Sink, TensorBoard, WandB
from tokenyard.monitor.system.sampler import Sampler
from tokenyard.monitor.verdict import judge
from tokenyard.monitor.window import Window
from tokenyard.storage.cache.counts import Counts

#: Steps that a window has at least: one of them, the longest, says nothing by itself.
_FEWEST_STEPS = 4
_LONGEST_TICK, _TICKS = 0.5, 20
_KEPT = 1000
_SECONDS_TO_END = 5.0


class Monitor:
    """Watches a loader, whoever iterates over it, and reports every so often.

    A report says what this rank's steps wait for their data and compute, how busy its GPU is, what the corpus's disk
    does, and, where steps wait or the GPU has too little to do, a `Verdict`: what holds the run back, by which figures,
    and which setting to change. Iterate over the monitor or, where a trainer does, hand the trainer the loader::

        for batch in Monitor(loader):
            ...

        with Monitor(loader):
            trainer.fit(module, loader)

    Rank 0 writes to the stream, TensorBoard and Weights & Biases, and tells of other ranks that hold it up; records go
    to a file for each rank. It costs the loop some microseconds a batch; a thread does the rest.

    Args:
        loader: what `build_dataloader` gave. A DataLoader over `loader.sampler` isn't seen.
        every_seconds: how often it reports.
        every_steps: in place of that: after so many steps.
        jsonl: a file that each report is appended to as a line of JSON; other ranks than 0 add `.rank<n>` to its name.
        tensorboard: a SummaryWriter, whose scalars `tokenyard/...` are written.
        wandb: a run of Weights & Biases, likewise.
        stream: what lines are written to; the standard error when not given.
        quiet: whether no lines are written.

    Attributes:
        loader: the loader that is watched.
        reports: the last thousand.

    Raises:
        ConfigError: an interval is not positive, or both are given.
        StorageError: `jsonl` can't be written.
    """

    def __init__(
        self,
        loader: TokenLoader,
        *,
        every_seconds: float | None = None,
        every_steps: int | None = None,
        jsonl: str | os.PathLike[str] | None = None,
        tensorboard: Any = None,
        wandb: Any = None,
        stream: TextIO | None = None,
        quiet: bool = False,
    ) -> None:
        _check_interval(every_seconds, every_steps)
        self.loader = loader
        self.reports: deque[Report] = deque(maxlen=_KEPT)
        self._rank = process_rank(loader.rank)
        self._every_steps = every_steps
        self._every_seconds = every_seconds or 30.0
        self._lines = None if quiet or self._rank else Lines(stream or sys.stderr)
        self._sinks = _sinks(self._rank, self._lines, jsonl, tensorboard, wandb)
        self._collector = Collector()
        self._sampler = Sampler([str(corpus.path) for corpus in loader.dataset.corpora])
        self._board = RankBoard("+".join(corpus.digest or corpus.structural_id for corpus in loader.dataset.corpora))
        self._summary = Summary()
        self._begun = time.perf_counter()
        self._was_held = False
        self._cache = loader.cache_counts
        self._ended = threading.Event()
        loader.watch(self._collector)
        self._thread = threading.Thread(target=self._run, name="tokenyard-monitor", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Iterate over the loader: its next epoch."""
        return iter(self.loader)

    def __len__(self) -> int:
        """Return the micro-batches of an epoch on this rank."""
        return len(self.loader)

    def steps(self) -> Iterator[list[dict[str, Tensor]]]:
        """Iterate over the loader's steps."""
        return self.loader.steps()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Report what is left, sum up, and leave the loader alone. The end of the program does so too."""
        if self._ended.is_set():
            return
        self._ended.set()
        atexit.unregister(self.close)
        self.loader.watch(None)
        self._thread.join(_SECONDS_TO_END)
        if self._lines is not None:
            self._lines.say(self._summary.text())

    def _run(self) -> None:
        beat = Random()  # the program's own generator is not touched
        tick = _LONGEST_TICK if self._every_steps else min(_LONGEST_TICK, self._every_seconds / _TICKS)
        try:
            # A regular beat that steps keep too would see the same part of each of them.
            while not self._ended.wait(beat.uniform(0.5, 1.5) * tick):
                self._sampler.tick(self._collector.makers, self._collector.device)
                if self._is_window_over():
                    self._report()
            self._sampler.tick(self._collector.makers, self._collector.device)
            self._report()
        except BaseException:
            self.loader.watch(None)  # what nobody takes any more would pile up
            raise

    def _is_window_over(self) -> bool:
        num_steps = self._collector.num_steps
        if self._every_steps is not None:
            return num_steps >= max(_FEWEST_STEPS, self._every_steps)
        return num_steps >= _FEWEST_STEPS and time.perf_counter() - self._begun >= self._every_seconds

    def _report(self) -> None:
        steps, made = self._collector.take_steps(), self._collector.take_made()
        system, queued, gpu = self._sampler.window()
        now = time.perf_counter()
        seconds, self._begun = now - self._begun, now
        cache = self._cached()
        self._summary.add_steps(steps)
        if len(steps) < _FEWEST_STEPS:
            return
        window = Window(
            loader=self.loader, steps=steps, made=made, seconds=seconds, cache=cache, held_before=self._was_held
        )
        self._was_held = window.is_held
        figures = window.figures(system, queued, gpu, self._collector)
        verdict = judge(figures)
        mine = RankWindow(
            rank=self._rank,
            step=figures.step,
            wait_ms=figures.wait_ms,
            compute_ms=figures.compute_ms,
            verdict=str(verdict or ""),
        )
        ranks = self._board.exchange(mine)
        unknown = self._board.unknown if figures.world_size > 1 else ""
        report = Report(figures=figures, verdict=straggler(ranks) or verdict, ranks=ranks, ranks_unknown=unknown)
        self.reports.append(report)
        self._summary.add(report)
        for sink in [*self._sinks]:
            self._write(sink, report)

    def _cached(self) -> Counts | None:
        """What the cache did since the last window."""
        before, self._cache = self._cache, self.loader.cache_counts
        return None if before is None or self._cache is None else self._cache.since(before)

    def _write(self, sink: Sink, report: Report) -> None:
        try:
            sink.write(report)
        except Exception as e:  # noqa: BLE001  # a full disk or a lost server must not end a run; it is told
            self._sinks.remove(sink)
            if self._lines is not None and sink is not self._lines:
                self._lines.say(f"{type(sink).__name__} gets no more reports: {e}")


def _check_interval(every_seconds: float | None, every_steps: int | None) -> None:
    if every_seconds is not None and every_steps is not None:
        raise ConfigError("every_seconds and every_steps are both given; keep one")
    for name, value in (("every_seconds", every_seconds), ("every_steps", every_steps)):
        if value is not None and value <= 0:
            raise ConfigError(f"{name}: expected a positive number, found {value!r}; leave it out for 30 seconds")


def _sinks(
    rank: int, lines: Lines | None, jsonl: str | os.PathLike[str] | None, tensorboard: Any, wandb: Any
) -> list[Sink]:
    found: list[Sink] = []
    if lines is not None:
        found.append(lines)
    if jsonl is not None:
        path = Path(jsonl)
        found.append(JsonLines(path.with_name(f"{path.stem}.rank{rank}{path.suffix}") if rank else path))
    if rank == 0 and tensorboard is not None:
        found.append(TensorBoard(tensorboard))
    if rank == 0 and wandb is not None:
        found.append(WandB(wandb))
    return found
