"""The loader end to end, against numpy on one array in memory and against other libraries.

The work: inputs, labels and numbers of shuffled samples of 2,048 uint16 tokens, as int64 tensors, in one process.
numpy's is less: the inputs alone, by fancy index and cast, so 1 is out of reach (two fresh arrays alone have about half
of its rate). `loader` is `build_dataloader` without threads; `threads` has the two that are the default; `batch` is
`TokenDataset.batch`.

Then peers on the same tokens, each by its own writer and reader in a process of its own, all in turn with ours: without
workers against `loader`, and with two worker processes each. Libraries get a collate function that casts a whole batch
at once, which makes them quicker than most who use them are. `MMapDataset` is what many write themselves, with torch's
`default_collate`; the same with the fast collate is told beside, and no peer to compare with: it is a loader that was
written for this measurement. Two processes of a StreamingDataset on one folder can't live at once, so there is one
contest for each number of workers::

    python benchmarks/loader.py --formats npy --no-peers
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import corpora, peers, results, timing

QUICK = ["--rows", "2048", "--rounds", "2", "--seconds", "0.05", "--peer-rounds", "1", "--workers", "0"]
#: Of numpy, by batch size.
BARS = {16: 0.35, 64: 0.45}
#: How many times as fast as each peer; the rest of them, as a whole, by `FASTEST`.
PEERS = {
    "StreamingDataset": 30.0,
    "webdataset": 30.0,
    "datasets map-style": None,
    "datasets IterableDataset": None,
    "MMapDataset": None,
    "litdata TokensLoader": None,
    "Megatron IndexedDataset": None,
    "Megatron GPTDataset": None,
}
FASTEST = 2.0
TUNED = "MMapDataset with a fast collate"
SAMPLE = {"mode": "rows"}


class Checked:
    """Refuses batches that hold other tokens than were written."""

    def __init__(self, name: str, tokens: corpora.Tokens) -> None:
        self._name = name
        self._tokens = tokens

    def __call__(self, batch: dict[str, torch.Tensor]) -> None:
        wanted = self._tokens[batch["sample_ids"].numpy()]
        inputs, labels = batch["input_ids"].numpy(), batch["labels"].numpy()
        if not (np.array_equal(inputs, wanted) and np.array_equal(labels[:, :-1], wanted[:, 1:])):
            raise SystemExit(f"{self._name} gave other tokens than numpy")


def batches_of_ids(num_samples: int, batch_size: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Shuffled indices, without end."""
    rng = np.random.default_rng(1)
    while True:
        order = rng.permutation(num_samples)
        for start in range(0, num_samples - batch_size + 1, batch_size):
            yield order[start : start + batch_size]


def ours(path: Path, tokens: corpora.Tokens, batch_size: int, **loader: Any) -> timing.Contender:
    """The loader with these settings."""
    made = tokenyard.build_dataloader(
        corpora.settings(path, batch_size=batch_size, sample=SAMPLE, **loader), rank=0, world_size=1
    )
    return timing.contender(timing.forever(made), batch_size, Checked("the loader", tokens))


def of_numpy(tokens: corpora.Tokens, batch_size: int) -> timing.Contender:
    """Inputs alone, from memory."""
    taken = (tokens[ids].astype(np.int64) for ids in batches_of_ids(len(tokens), batch_size))
    return timing.contender(taken, batch_size, lambda batch: None)


def measure_ours(
    path: Path, tokens: corpora.Tokens, format: str, batch_size: int, rounds: int, seconds: float
) -> Iterator[results.Result]:
    """Each way through the loader, against numpy."""
    dataset = tokenyard.TokenDataset(path, mode="rows")
    taken = (dataset.batch(ids) for ids in batches_of_ids(len(dataset), batch_size))
    rates = timing.contest(
        {
            "numpy": of_numpy(tokens, batch_size),
            "batch": timing.contender(taken, batch_size, Checked("TokenDataset.batch", tokens)),
            "loader": ours(path, tokens, batch_size, num_threads=0),
            "threads": ours(path, tokens, batch_size),
        },
        rounds,
        seconds,
    )
    for way in ("loader", "threads", "batch"):
        yield results.Result(
            work="loader",
            case=f"{format}, batch {batch_size}, {way}",
            measured=rates[way] / rates["numpy"],
            unit="of numpy",
            bar=BARS.get(batch_size) if way == "loader" else None,
            rates={"samples/s": rates[way], "numpy": rates["numpy"]},
        )


def measure_peers(
    path: Path, tokens: corpora.Tokens, names: list[str], work: Path, *, batch_size: int, num_workers: int, args: Any
) -> Iterator[results.Result]:
    """Ours against each peer, and against the fastest."""
    loader: dict[str, Any] = {"num_workers": num_workers, "num_threads": 0, "persistent_workers": num_workers > 0}
    with contextlib.ExitStack() as stack:
        entered = {
            name: stack.enter_context(
                peers.peer(name, work / "rows.npy", work / "peers", batch_size=batch_size, num_workers=num_workers)
            )
            for name in names
        }
        us = ours(path, tokens, batch_size, **loader)
        rates = timing.contest({"ours": us, **entered}, args.peer_rounds, args.peer_seconds)
    mine = rates.pop("ours")
    workers = f"{num_workers} workers" if num_workers else "one process"
    for name, rate in rates.items():
        yield results.Result(
            work=f"loader, {workers}",
            case=f"npy, batch {batch_size}, {name}",
            measured=mine / rate,
            unit="times its rate",
            bar=PEERS.get(name) if not num_workers else None,
            rates={"samples/s": mine, "peer": rate},
        )
    rates.pop(TUNED, None)
    if rates:
        fastest = max(rates, key=rates.__getitem__)
        yield results.Result(
            work=f"loader, {workers}",
            case=f"npy, batch {batch_size}, the fastest peer: {fastest}",
            measured=mine / rates[fastest],
            unit="times its rate",
            bar=FASTEST,
            rates={"samples/s": mine, "peer": rates[fastest]},
        )


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format at each batch size, then the peers."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, default=corpora.ROWS)
    parser.add_argument("--seq-len", type=int, default=corpora.SEQ_LEN)
    parser.add_argument("--shards", type=int, default=corpora.SHARDS)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset"])
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a round, for each way")
    parser.add_argument("--peers", nargs="+", choices=[*PEERS, TUNED], default=[*PEERS, TUNED])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peer-batch-sizes", type=int, nargs="+", default=[16])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--peer-rounds", type=int, default=5)
    parser.add_argument("--peer-seconds", type=float, default=0.4)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    timing.warm_allocator()
    tokens = corpora.zipf_rows(args.rows, args.seq_len)
    names = [] if args.no_peers else peers.installed(args.peers)
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        np.save(work / "rows.npy", tokens)
        for format in dict.fromkeys([*args.formats, *(["npy"] if names else [])]):
            corpora.write_rows(work / format, format, tokens, args.shards)
        for format in args.formats:
            for batch_size in args.batch_sizes:
                found += measure_ours(work / format, tokens, format, batch_size, args.rounds, args.seconds)
        for batch_size in args.peer_batch_sizes if names else []:
            for num_workers in args.workers:
                found += measure_peers(
                    work / "npy", tokens, names, work, batch_size=batch_size, num_workers=num_workers, args=args
                )
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
