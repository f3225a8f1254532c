"""The loader over formats that are decoded: Parquet and zstd MDS, shuffled by blocks, two threads.

Each round reads an epoch of a corpus that was opened anew, so that every storage block is decoded once. What it could
cost at least is what decoding costs alone, by pyarrow (all files, one after another, on one core) or by zstandard, and
then what the loader costs over raw shards, measured the same way in the same run: 1/(1/decode + 1/loader). With two
cores, two threads may do better. Then against peers, on the same tokens written by their own writers::

    python benchmarks/decoded.py --no-peers
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
import zstandard

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import corpora, loader, peers, results, timing

QUICK = ["--rows", "2048", "--rounds", "1", "--peer-seconds", "0.1"]
BAR = 0.8
PEER_BAR = 15.0
FORMATS = {"parquet": {}, "mds": {"compression": "zstd"}}
PEERS = {"parquet": "datasets IterableDataset", "mds": "StreamingDataset zstd"}


def decode_parquet(path: Path) -> int:
    """Decode all files, and return their rows."""
    return sum(pq.read_table(file, use_threads=False).num_rows for file in sorted(path.glob("*.parquet")))


def decode_mds(path: Path) -> int:
    """Decompress all files, and return their bytes."""
    return sum(len(zstandard.ZstdDecompressor().decompress(file.read_bytes())) for file in path.glob("*.zstd"))


DECODE: dict[str, Callable[[Path], int]] = {"parquet": decode_parquet, "mds": decode_mds}


def epoch(path: Path, tokens: corpora.Tokens, batch_size: int) -> timing.Contender:
    """Reads an epoch of a corpus that is opened anew each time, however long it takes."""
    check = loader.Checked(str(path.name), tokens)

    def take(seconds: float) -> float:
        del seconds
        made = tokenyard.build_dataloader(
            corpora.settings(path, batch_size=batch_size, sample=loader.SAMPLE, num_threads=2), rank=0, world_size=1
        )
        started = time.perf_counter()
        (batch,) = deque(made, maxlen=1)
        rate = len(made) * batch_size / (time.perf_counter() - started)
        check(batch)
        return rate

    return take


def decoding(format: str, path: Path, num_rows: int) -> timing.Contender:
    """Decodes all shards, and nothing else."""

    def take(seconds: float) -> float:
        del seconds
        started = time.perf_counter()
        DECODE[format](path)
        return num_rows / (time.perf_counter() - started)

    return take


def measure(format: str, work: Path, tokens: corpora.Tokens, batch_size: int, rounds: int) -> results.Result:
    """One format, against decoding and loading alone."""
    rates = timing.contest(
        {
            "decode": decoding(format, work / format, len(tokens)),
            "raw": epoch(work / "npy", tokens, batch_size),
            "ours": epoch(work / format, tokens, batch_size),
        },
        rounds,
        0,
    )
    limit = 1 / (1 / rates["decode"] + 1 / rates["raw"])
    return results.Result(
        work="decoded",
        case=f"{format}, batch {batch_size}",
        measured=rates["ours"] / limit,
        unit="of 1/(1/decode + 1/loader)",
        bar=BAR,
        rates={"samples/s": rates["ours"], "decode": rates["decode"], "loader": rates["raw"]},
    )


def measure_peer(
    format: str, work: Path, tokens: corpora.Tokens, batch_size: int, rounds: int, seconds: float
) -> Iterator[results.Result]:
    """One format, against the peer that reads it; nothing where it is not installed."""
    name = PEERS[format]
    with contextlib.ExitStack() as stack:
        for found in peers.installed([name]):
            options = {"batch_size": batch_size, "num_workers": 0}
            peer = stack.enter_context(peers.peer(found, work / "rows.npy", work / "peers", **options))
            rates = timing.contest({"ours": epoch(work / format, tokens, batch_size), "peer": peer}, rounds, seconds)
            yield results.Result(
                work="decoded",
                case=f"{format}, batch {batch_size}, {name}",
                measured=rates["ours"] / rates["peer"],
                unit="times its rate",
                bar=PEER_BAR,
                rates={"samples/s": rates["ours"], "peer": rates["peer"]},
            )


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format at each batch size, then its peer."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, default=corpora.ROWS)
    parser.add_argument("--seq-len", type=int, default=corpora.SEQ_LEN)
    parser.add_argument("--shards", type=int, default=corpora.SHARDS)
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peer-seconds", type=float, default=1.0)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    timing.warm_allocator()
    tokens = corpora.zipf_rows(args.rows, args.seq_len)
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        np.save(work / "rows.npy", tokens)
        corpora.write_rows(work / "npy", "npy", tokens, args.shards)
        for format in args.formats:
            corpora.write_rows(work / format, format, tokens, args.shards, **FORMATS[format])
            for batch_size in args.batch_sizes:
                found.append(measure(format, work, tokens, batch_size, args.rounds))
            if not args.no_peers:
                batch_size = args.batch_sizes[0]
                found += measure_peer(format, work, tokens, batch_size, args.rounds, args.peer_seconds)
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
