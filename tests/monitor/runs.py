"""Loops that a monitor watches, and the bottlenecks that are made for them."""

import os
import time
from collections import Counter

import numpy as np

import tokenyard

SEQ_LEN = 512
#: Windows of a test, each so many seconds. The first one holds imports and the start of threads, and isn't looked at.
WINDOWS, WINDOW_SECONDS = 3, 0.8


def write(path, format="npy", *, rows=8192, shard_bytes=1 << 15, **options):
    tokens = (np.random.default_rng(0).zipf(1.3, (rows, SEQ_LEN)) % 50_000).astype(np.uint16)
    schema = tokenyard.Schema(token_dtype="uint16", vocab_size=50_000)
    with tokenyard.CorpusWriter(path, format=format, schema=schema, shard_bytes=shard_bytes, **options) as writer:
        for row in tokens:
            writer.write(row)
    return path


def settings(path, *, batch=16, read="auto", sample=None, **loader):
    return {
        "data": {"path": str(path), "read": read, "sample": {"mode": "rows", **(sample or {})}},
        "order": {"global_batch_size": batch, "shuffle": "global"},
        "loader": loader,
    }


def loader_of(path, *, transform=None, **options):
    return tokenyard.build_dataloader(settings(path, **options), 0, 1, transform=transform)


def watched(loader, step_seconds, *, windows=WINDOWS, seconds=WINDOW_SECONDS, before=lambda: None, after=lambda: None):
    """The reports on a loop whose steps do nothing for so long, as one does that waits for its GPU.

    `before` is called before the threads or workers of each epoch begin, `after` once they have.
    """
    with tokenyard.Monitor(loader, every_seconds=seconds, quiet=True) as monitor:
        while len(monitor.reports) < windows:
            before()
            batches = iter(monitor)
            for number, _ in enumerate(batches):
                if not number:
                    after()
                if step_seconds:
                    time.sleep(step_seconds)
                if len(monitor.reports) >= windows:
                    break
    return list(monitor.reports)[1:windows]


def verdict(reports):
    """The verdict that most windows have; None where most have none."""
    kinds = Counter(None if report.verdict is None else report.verdict.kind for report in reports)
    kind = kinds.most_common(1)[0][0]
    return next((r.verdict for r in reports if r.verdict is not None and r.verdict.kind == kind), None)


def slow_storage(monkeypatch, slow):
    """Let each read of a file take as long as `slow()` says, as on a disk that is throttled."""
    read = os.preadv

    def read_slowly(*arguments):
        time.sleep(slow())
        return read(*arguments)

    monkeypatch.setattr(os, "preadv", read_slowly)


def in_python(milliseconds):
    """A transform that keeps Python's lock for so long in each sample."""

    def transform(sample, rng):
        until = time.thread_time() + milliseconds / 1e3
        while time.thread_time() < until:
            sum(range(100))
        return sample

    return transform
