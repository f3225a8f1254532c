"""Measure in this process how fast a corpus is read: in order, shuffled, by single rows, and from opening it on."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard.bench.memory import resident_bytes
from tokenyard.bench.page_cache import MAX_COLD_SHARE, drop, files_of, resident_share, warm
from tokenyard.bench.rates import latencies, percentile, rate
from tokenyard.corpus import Corpus, open_corpus

_MAX_ROWS = 4096
_MAX_COLD_ROWS = 256
_WARM_UP_BATCHES = 4
_SAMPLED_BATCHES = 8


@dataclass(frozen=True, kw_only=True)
class ReadJob:
    """Read the corpus at ``path``. ``seq_len`` is that of samples in mode concat; ``seconds`` that a rate takes."""

    path: str
    mode: str
    seq_len: int | None
    batch_size: int
    seconds: float
    seed: int
    cold: bool


def measure_reading(job: ReadJob) -> dict[str, Any]:
    """Measure all that there is.

    Returns ``figures`` by metric, the ``tokens_per_sample``, whether there was torch, without which there is no loader
    (``with_loader``), and the largest ``resident_share`` of the files at a time that was meant to be cold.
    """
    reader = _Reader(job)
    files = files_of(Path(job.path))
    warm(files)
    figures = reader.first_figures()
    cold_share = None
    if job.cold:
        found, cold_share = _cold(reader, files)
        warm(files)
        figures |= {f"{name}_cold": value for name, value in found.items()}
    figures |= reader.warm_figures()
    return {
        "figures": figures,
        "tokens_per_sample": reader.tokens_per_sample,
        "with_loader": reader.with_loader,
        "resident_share": cold_share,
    }


def _cold(reader: _Reader, files: list[Path]) -> tuple[dict[str, float], float | None]:
    """Each figure with the files out of the page cache: none where they can't be seen to be out of it."""
    found: dict[str, float] = {}
    most = 0.0
    for measure in reader.cold_measures():
        # Maps that nobody needs any more would keep pages.
        gc.collect()
        drop(files)
        share = resident_share(files)
        if share is None:
            return {}, None
        most = max(most, share)
        if most > MAX_COLD_SHARE:
            return {}, most
        found |= measure()
    return found, most


class _Reader:
    """The measurements of one corpus. Each opens it anew, so that none profits from what another one decoded."""

    def __init__(self, job: ReadJob) -> None:
        self._job = job
        self._rng = np.random.default_rng(job.seed)
        self.with_loader = _has_torch()
        self._resident_before = resident_bytes()
        self.tokens_per_sample: float | None = None

    def first_figures(self) -> dict[str, float]:
        """What a process pays once: to open, and to have a first batch. Then all code has run once."""
        begun = time.perf_counter()
        corpus = open_corpus(self._job.path)
        opened = time.perf_counter() - begun
        figures = {"open": opened * 1e3} | self._first_batch()
        if self.with_loader:
            for threads in (0, 2):
                batches = iter(self._loader(threads))
                for _ in zip(range(_WARM_UP_BATCHES), batches, strict=False):
                    pass
        corpus.gather_rows(self._shuffled(corpus)[: self._job.batch_size])
        return figures

    def warm_figures(self) -> dict[str, float]:
        """All rates and latencies with the files in the page cache, and the memory that an epoch takes."""
        seconds = self._job.seconds
        figures = {"sequential": rate(self._sequential, seconds) / 1e6}
        figures["gather"] = rate(self._gathers, seconds) / 1e6
        if self.with_loader:
            figures["loader"] = rate(partial(self._loaded, 2), seconds) / 1e6
            figures["inline"] = rate(partial(self._loaded, 0), seconds) / 1e6
        return figures | self._row_latency(_MAX_ROWS) | self._memory()

    def cold_measures(self) -> Iterator[Callable[[], dict[str, float]]]:
        """What is measured with a cold page cache; each makes it warm."""
        seconds = self._job.seconds
        yield self._first_batch
        yield lambda: {"sequential": rate(self._sequential, seconds, once=True) / 1e6}
        if self.with_loader:
            yield lambda: {"loader": rate(partial(self._loaded, 2), seconds, once=True) / 1e6}
        yield partial(self._row_latency, _MAX_COLD_ROWS)

    def _first_batch(self) -> dict[str, float]:
        begun = time.perf_counter()
        if self.with_loader:
            batch = next(iter(self._loader(0)))
            ids = batch["input_ids"]
            self.tokens_per_sample = self.tokens_per_sample or ids.numel() / len(ids)
        else:
            corpus = open_corpus(self._job.path)
            corpus.gather_rows(self._shuffled(corpus)[: self._job.batch_size])
        return {"first_batch": (time.perf_counter() - begun) * 1e3}

    def _sequential(self) -> Iterable[int]:
        corpus = open_corpus(self._job.path)
        return (batch.num_tokens for batch in corpus.batches())

    def _gathers(self) -> Iterable[int]:
        """Batches of rows from everywhere."""
        corpus = open_corpus(self._job.path)
        rows, size = self._shuffled(corpus), self._job.batch_size
        return (len(corpus.gather_rows(rows[i : i + size])[0]) for i in range(0, len(rows), size))

    def _loaded(self, num_threads: int) -> Iterable[int]:
        """Batches of tensors as a training loop has them."""
        loader = self._loader(num_threads)
        return (batch["input_ids"].numel() for batch in loader)

    def _row_latency(self, most: int) -> dict[str, float]:
        """One row after another from everywhere, where no decoded block is kept: what a row costs in a large corpus."""
        corpus = open_corpus(self._job.path, cache_bytes=0)
        rows = self._far_apart(corpus, most)
        found = latencies((partial(corpus.__getitem__, row) for row in rows), self._job.seconds)
        return {"row_p50": percentile(found, 0.5) * 1e6, "row_p99": percentile(found, 0.99) * 1e6}

    def _far_apart(self, corpus: Corpus, number: int) -> list[int]:
        """Random rows, none in the shard of the one before where there are several: a cache keeps the newest block."""
        starts = corpus.shard_row_starts
        shards = np.flatnonzero(np.diff(starts))
        steps = self._rng.integers(1, max(2, len(shards)), number)
        chosen = shards[np.cumsum(steps) % len(shards)]
        rows: list[int] = self._rng.integers(starts[chosen], starts[chosen + 1]).tolist()
        return rows

    def _memory(self) -> dict[str, float]:
        """The most that was resident over an epoch, without pages of files, beyond what the imports took."""
        before, most = self._resident_before, 0
        if before is None:
            return {}
        steps = self._loaded(2) if self.with_loader else self._gathers()
        until = time.perf_counter() + self._job.seconds
        for number, _ in enumerate(steps):
            if number % _SAMPLED_BATCHES == 0:
                most = max(most, resident_bytes() or 0)
                if time.perf_counter() > until:
                    break
        return {"memory": max(0, most - before) / 1e6}

    def _shuffled(self, corpus: Corpus) -> np.ndarray[Any, np.dtype[np.int64]]:
        return self._rng.permutation(len(corpus))

    def _loader(self, num_threads: int) -> Any:
        from tokenyard.datasets.loader import build_dataloader

        job = self._job
        return build_dataloader(
            {
                "data": {"path": job.path, "sample": {"mode": job.mode, "seq_len": job.seq_len}},
                "order": {"global_batch_size": job.batch_size, "seed": job.seed},
                "loader": {"num_threads": num_threads},
            },
            rank=0,
            world_size=1,
        )


def _has_torch() -> bool:
    try:
        import_module("tokenyard.datasets.loader")
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        return False
    return True
