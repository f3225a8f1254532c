"""What a batch costs on its way to the training loop, against numpy doing the same work on one array in memory.

The work: take windows of 2,048 uint16 tokens and their labels by the same shuffled indices, as two int64 arrays. numpy
does it by fancy index and cast; `gather` reads the windows alone; `batch` makes the tensors; `threads` is a loop over
the whole loader, order and prefetching included, and `inline` the same without threads. All in one process, in turn.
Prints samples a second, and the ratio to numpy::

    python benchmarks/loader.py --formats npy mds parquet
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tokenyard
from tokenyard.datasets.loader import TokenLoader

WAYS = ("gather", "batch", "inline", "threads")
Array = np.ndarray[Any, np.dtype[Any]]


def write(path: Path, format: str, tokens: Array, num_shards: int, documents: Array) -> tokenyard.Corpus:
    """A corpus of documents of the given lengths, in about ``num_shards`` shards."""
    schema = tokenyard.Schema(token_dtype="uint16", vocab_size=1 << 16)
    size = tokens.nbytes // num_shards
    with tokenyard.CorpusWriter(path, format=format, schema=schema, shard_bytes=size) as writer:
        for document in np.split(tokens, np.cumsum(documents)[:-1]):
            writer.write(document)
    return tokenyard.open_corpus(path)


def loader_of(path: Path, seq_len: int, batch_size: int, num_threads: int) -> TokenLoader:
    """A loader of one rank over a corpus."""
    return tokenyard.build_dataloader(
        {
            "data": {"path": str(path), "sample": {"seq_len": seq_len}},
            "order": {"global_batch_size": batch_size, "seed": 1},
            "loader": {"num_threads": num_threads},
        },
        rank=0,
        world_size=1,
    )


def timed(steps: Iterator[Any]) -> tuple[float, Any]:
    """Seconds that all steps took, and what the last one gave."""
    begun, last = time.perf_counter(), None
    for step in steps:
        last = step
    return time.perf_counter() - begun, last


def measure(path: Path, tokens: Array, seq_len: int, batch_size: int, repeats: int) -> dict[str, float]:
    """Median samples a second of each way, the ways in turn. Stops when one gives other tokens than numpy."""
    loaders = {"threads": loader_of(path, seq_len, batch_size, 2), "inline": loader_of(path, seq_len, batch_size, 0)}
    dataset = loaders["inline"].dataset
    size = len(dataset) * seq_len
    inputs, labels = tokens[:size].reshape(-1, seq_len), tokens[1 : size + 1].reshape(-1, seq_len)
    rates: dict[str, list[float]] = {}
    for epoch in range(repeats):
        loaders["inline"].set_epoch(epoch)
        ids = [b["sample_ids"].numpy() for b in loaders["inline"]]
        for loader in loaders.values():
            loader.set_epoch(epoch)
        ways: dict[str, Callable[[], Iterator[Any]]] = {
            "numpy": lambda ids=ids: ((inputs[i].astype(np.int64), labels[i].astype(np.int64)) for i in ids),
            "gather": lambda ids=ids: (dataset.corpus.gather_windows(i * seq_len, seq_len + 1) for i in ids),
            "batch": lambda ids=ids: (dataset.batch(i) for i in ids),
            **{name: lambda loader=loader: iter(loader) for name, loader in loaders.items()},
        }
        for name, way in ways.items():
            seconds, last = timed(way())
            rates.setdefault(name, []).append(len(ids) * batch_size / seconds)
            check(name, last, inputs[ids[-1]], labels[ids[-1]])
    return {name: float(np.median(found)) for name, found in rates.items()}


def check(name: str, found: Any, inputs: Array, labels: Array) -> None:
    """Compare the last batch of a way with what numpy takes."""
    if name == "gather":
        taken = found[:, :-1], found[:, 1:]
    elif name == "numpy":
        taken = found
    else:
        taken = found["input_ids"].numpy(), found["labels"].numpy()
    if not (np.array_equal(taken[0], inputs) and np.array_equal(taken[1], labels)):
        raise SystemExit(f"{name} gave other tokens than numpy")


def main(arguments: list[str] | None = None) -> None:
    """Measure each format at each batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=16384)
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset", "parquet"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.2, args.samples * args.seq_len + 1) % 50257).astype(np.uint16)
    lengths = rng.integers(1, 2 * args.seq_len, args.samples)
    documents = lengths[np.cumsum(lengths) < len(tokens)]
    documents = np.append(documents, len(tokens) - documents.sum())
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for format in args.formats:
            path = Path(folder) / format
            write(path, format, tokens, args.shards, documents)
            for batch_size in args.batch_sizes:
                rates = measure(path, tokens, args.seq_len, batch_size, args.repeats)
                found.append({"format": format, "batch size": batch_size, **rates})
    if args.json:
        print(json.dumps(found, indent=2))
        return
    for row in found:
        ways = [f"{way} {row[way]:,.0f} ({row[way] / row['numpy']:.2f})" for way in WAYS]
        print(
            f"{row['format']}, batches of {row['batch size']}: numpy {row['numpy']:,.0f} samples/s, {', '.join(ways)}"
        )


if __name__ == "__main__":
    main()
