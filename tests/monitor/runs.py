"""Loops that a monitor watches, and the bottlenecks that are made for them."""

import os
import time

import numpy as np

import tokenyard

SEQ_LEN = 512
#: Windows of a test, each so many seconds. The first one holds imports and the start of threads, and isn't looked at.
WINDOWS, WINDOW_SECONDS = 3, 0.8
#: Windows until which a test waits for one that other work on this machine doesn't disturb.
MOST_WINDOWS = 60


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


def streamed(url, cache):
    """A loader through a cache that holds half of what `write` writes."""
    run = settings(url, num_threads=2, cache={"path": str(cache), "bytes": 4 << 20})
    run["order"] |= {"shuffle": "block", "block_samples": 64, "window_blocks": 1, "lanes": 1}
    return tokenyard.build_dataloader(run, 0, 1)


def watched(
    loader,
    step_seconds,
    *,
    is_seen=lambda reports: True,
    seconds=WINDOW_SECONDS,
    before=lambda: None,
    after=lambda: None,
):
    """The last two reports on a loop whose steps do nothing for so long, as one does that waits for its GPU.

    It goes on until `is_seen` in the last two, or for `MOST_WINDOWS`. `before` is called before the threads or workers
    of each epoch begin, `after` once they have.
    """

    def steps():
        while True:
            before()
            for number, _ in enumerate(monitor):
                if not number:
                    after()
                yield

    looked_at = WINDOWS - 1
    with tokenyard.Monitor(loader, every_seconds=seconds, quiet=True) as monitor:
        for _ in steps():
            if step_seconds:
                time.sleep(step_seconds)
            reports = list(monitor.reports)
            if len(reports) > looked_at:
                looked_at = len(reports)
                if looked_at >= MOST_WINDOWS or is_seen(reports[-2:]):
                    break
    return reports[-2:]


def check_verdict(loader, step_seconds, kind, *words, **options):
    """Two windows in a row have a verdict of that kind, with one of those words.

    A verdict is of the machine too: where other tests have the cores or the disk for some windows, it says so.
    """

    def is_told(verdict):
        return verdict is not None and verdict.kind == kind and all(has_one(str(verdict), word) for word in words)

    def has_one(text, word):
        return any(one in text for one in ([word] if isinstance(word, str) else word))

    found = [
        report.verdict
        for report in watched(loader, step_seconds, is_seen=lambda r: all(is_told(x.verdict) for x in r), **options)
    ]
    assert all(is_told(verdict) for verdict in found), found


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
