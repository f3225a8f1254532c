"""What a corpus that is not in memory costs to read in shuffled block order, against `dd` on the same files.

The page cache is dropped for the files before each run, by fsync and posix_fadvise, and it is looked at (mincore)
whether they are gone; where they are not, as in some containers, `cold` says which share stayed. `dd` reads the files
from end to end; `gather` takes the rows of all batches, one after another, in one thread; `loader` is a loop over the
whole loader with its two threads. `warm` is the loader once more with the files in memory: no cold rate can pass that
or `dd`. Each way is measured in turn. Prints MB of tokens a second, and the ratio to `dd`::

    python benchmarks/cold.py --formats npy mds --samples 131072
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import results
from tokenyard.datasets.loader import TokenLoader
from tokenyard.storage import Folder
from tokenyard.storage.advice import share_in_memory

QUICK = ["--samples", "2048", "--repeats", "1", "--formats", "npy"]
BAR = 0.7
MODES = ("mmap", "pread", "auto")
Array = np.ndarray[Any, np.dtype[Any]]


def tokens_of(samples: int, seq_len: int) -> Array:
    """Rows of uint16 tokens [samples, seq_len]."""
    rng = np.random.default_rng(0)
    base = (rng.zipf(1.2, min(samples, 1024) * seq_len) % 50257).astype(np.uint16).reshape(-1, seq_len)
    numbers = np.arange(samples)
    return base[numbers % len(base)] ^ (numbers // len(base)).astype(np.uint16)[:, None]


def write(path: Path, format: str, tokens: Array, num_shards: int) -> list[str]:
    """A corpus of these rows. Returns the names of its shards."""
    schema = tokenyard.Schema(token_dtype="uint16", vocab_size=1 << 16)
    size = tokens.nbytes // num_shards
    with tokenyard.CorpusWriter(path, format=format, schema=schema, shard_bytes=size) as writer:
        for row in tokens:
            writer.write(row)
    return [file.name for shard in tokenyard.open_corpus(path).manifest.shards for file in shard.files]


def drop(path: Path, names: list[str]) -> float:
    """Drop files from the page cache. Returns the share of their pages that is still there."""
    stayed = []
    for name in names:
        with open(path / name, "rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        data = Folder(path).map(name)
        stayed.append(share_in_memory(data.__array_interface__["data"][0], len(data)))
    return float(np.mean(stayed))


def dd(path: Path, names: list[str]) -> float:
    """Seconds that reading the files from end to end takes, a MiB at a time, as `dd bs=1M` does."""
    block = bytearray(1 << 20)
    begun = time.perf_counter()
    for name in names:
        with open(path / name, "rb", buffering=0) as file:
            while file.readinto(block):
                pass
    return time.perf_counter() - begun


def loader_of(path: Path, mode: str, batch_size: int, num_threads: int) -> TokenLoader:
    """A loader of one rank over the rows, in block order."""
    return tokenyard.build_dataloader(
        {
            "data": {"path": str(path), "read": mode, "sample": {"mode": "rows"}},
            "order": {"global_batch_size": batch_size, "seed": 1, "shuffle": "block"},
            "loader": {"num_threads": num_threads},
        },
        rank=0,
        world_size=1,
    )


def through_loader(path: Path, mode: str, batch_size: int, tokens: Array) -> float:
    """Seconds of an epoch, the first batch included. Stops when the last batch holds other tokens than were written."""
    found = loader_of(path, mode, batch_size, 2)
    begun = time.perf_counter()
    (batch,) = deque(found, maxlen=1)
    seconds = time.perf_counter() - begun
    check(mode, batch["input_ids"].numpy(), tokens[batch["sample_ids"].numpy()])
    return seconds


def through_gather(path: Path, mode: str, batch_size: int, tokens: Array) -> float:
    """Seconds that the rows of all batches take, as they are stored."""
    found = loader_of(path, mode, batch_size, 0)
    corpus = found.dataset.corpus
    batches = [request.micro_batch.sample_ids for request in found.sampler.requests(found.sampler.begin())]
    begun = time.perf_counter()
    for ids in batches:
        flat, _ = corpus.gather_rows(ids)
    seconds = time.perf_counter() - begun
    check(mode, flat.reshape(len(ids), -1), tokens[ids])
    return seconds


def check(name: str, found: Array, expected: Array) -> None:
    """Stop unless a way read what was written."""
    if not np.array_equal(found, expected):
        raise SystemExit(f"{name} gave other tokens than were written")


def measure(path: Path, names: list[str], tokens: Array, batch_size: int, repeats: int) -> dict[str, float]:
    """Median MB of tokens a second of each way, and the largest share of pages that stayed in memory."""
    megabytes, stayed = tokens[: len(tokens) // batch_size * batch_size].nbytes / 1e6, 0.0
    rates: dict[str, list[float]] = {}
    for _ in range(repeats):
        stayed = max(stayed, drop(path, names))
        rates.setdefault("dd", []).append(megabytes / dd(path, names))
        for mode in MODES:
            for name, way in (("gather", through_gather), ("loader", through_loader)):
                stayed = max(stayed, drop(path, names))
                rates.setdefault(f"{name} {mode}", []).append(megabytes / way(path, mode, batch_size, tokens))
            rates.setdefault(f"warm {mode}", []).append(megabytes / through_loader(path, mode, batch_size, tokens))
    return {**{name: float(np.median(found)) for name, found in rates.items()}, "stayed in memory": stayed}


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format."""
    parser = results.parser(__doc__)
    parser.add_argument("--samples", type=int, default=65536)
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset"])
    parser.add_argument("--folder", type=Path, help="where the files are made and removed again: the disk to measure")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tokens = tokens_of(args.samples, args.seq_len)
    found = []
    for format in args.formats:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            path = Path(folder) / "corpus"
            names = write(path, format, tokens, args.shards)
            found += told(format, measure(path, names, tokens, args.batch_size, args.repeats))
    return results.report(found, as_json=args.json)


def told(format: str, rates: dict[str, float]) -> list[results.Result]:
    """The lines of a format, from MB of tokens a second."""
    stayed = rates["stayed in memory"]
    warm = f", {stayed:.0%} stayed in memory" if stayed > 0.01 else ""
    found = [
        results.Result(
            work="cold",
            case=f"{format}, loader, {mode}{warm}",
            measured=rates[f"loader {mode}"] / rates["dd"],
            unit="of dd",
            bar=BAR if mode == "pread" else None,
            rates=rates,
        )
        for mode in MODES
    ]
    found += [
        results.Result(
            work="cold",
            case=f"{format}, loader, {mode}{warm}",
            measured=rates[f"loader {mode}"] / min(rates["dd"], rates[f"warm {mode}"]),
            unit="of dd, or of warm where that is lower",
        )
        for mode in MODES
    ]
    quicker = max(rates["loader mmap"], rates["loader pread"])
    auto = {"measured": rates["loader auto"] / quicker, "unit": "of the quicker mode"}
    return [*found, results.Result(work="cold", case=f"{format}, loader, auto{warm}", **auto)]


if __name__ == "__main__":
    main()
