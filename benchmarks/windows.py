"""Windows of 2,048 tokens over documents of log-normal lengths (mean 800), with and without where documents begin.

`windows` gathers them alone; `batch` makes the tensors of a batch: inputs and labels; `boundaries` adds positions,
numbers of documents, and cumulative lengths, by rows, and `eos` by an EOS id. numpy takes the inputs alone by fancy
index from one array in memory and casts them. So each is also told against as many tensors made anew and filled with
one number, two for `batch` and four (two of them int32) for the others, and these against numpy: nothing that makes
such tensors comes nearer to numpy than they do. Megatron's GPTDataset makes inputs, labels, positions and a loss mask::

    python benchmarks/windows.py --formats npy --no-peers
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import corpora, loader, peers, results, timing

QUICK = ["--samples", "2048", "--rounds", "2", "--seconds", "0.05", "--peer-rounds", "1"]
BAR = 0.4
PEER_BAR = 20.0
PEER = "Megatron GPTDataset"
#: Of a batch with boundaries: inputs, labels, positions, numbers of documents.
TENSORS = (torch.int64, torch.int64, torch.int32, torch.int32)


def gather(corpus: tokenyard.Corpus, ids: Any, seq_len: int) -> Any:
    """int64[len(ids), seq_len + 1]."""
    return corpus.gather_windows(ids * seq_len, seq_len + 1, dtype=np.int64)


def eos_of(tokens: corpora.Tokens, num_documents: int) -> int:
    """The id that comes nearest to ending as many documents as there are."""
    return int(np.argmin(np.abs(np.bincount(tokens) - num_documents)))


def checked_starts(documents: Any, seq_len: int) -> Callable[[dict[str, torch.Tensor]], None]:
    """Refuses positions that don't begin again at each document."""
    starts = np.cumsum(documents)

    def check(batch: dict[str, torch.Tensor]) -> None:
        first = batch["sample_ids"].numpy()[:, None] * seq_len + np.arange(seq_len)
        ends = np.searchsorted(starts, first, side="right")
        begins = np.concatenate([[0], starts])[ends]
        wanted = first - np.maximum(begins, first[:, :1])
        if not np.array_equal(batch["position_ids"].numpy(), wanted):
            raise SystemExit("positions are not those of the documents")

    return check


def fresh(dtypes: Sequence[torch.dtype], batch_size: int, seq_len: int) -> list[torch.Tensor]:
    """What a batch of such tensors costs at least: [batch_size, seq_len] each, new and written once."""
    return [torch.full((batch_size, seq_len), 1, dtype=dtype) for dtype in dtypes]


def measure(
    path: Path, tokens: corpora.Tokens, documents: Any, *, format: str, batch_size: int, args: Any
) -> Iterator[results.Result]:
    """Each way, against numpy and against fresh tensors."""
    seq_len = args.seq_len
    plain = tokenyard.TokenDataset(path, seq_len=seq_len)
    bounded = tokenyard.TokenDataset(path, seq_len=seq_len, boundaries=True)
    by_eos = tokenyard.TokenDataset(
        path, seq_len=seq_len, boundaries=True, documents="eos", eos_token_id=eos_of(tokens, len(documents))
    )
    samples = tokens[: len(plain) * seq_len].reshape(-1, seq_len)
    ids = loader.batches_of_ids(len(plain), batch_size)

    def contender(take: Callable[[Any], Any], check: Callable[[Any], None] = lambda batch: None) -> timing.Contender:
        return timing.contender((take(some) for some in ids), batch_size, check)

    rates = timing.contest(
        {
            "numpy": contender(lambda some: samples[some].astype(np.int64)),
            "two tensors": contender(lambda some: fresh(TENSORS[:2], batch_size, seq_len)),
            "four tensors": contender(lambda some: fresh(TENSORS, batch_size, seq_len)),
            "windows": contender(lambda some: gather(plain.corpus, some, seq_len)),
            "batch": contender(plain.batch, loader.Checked("TokenDataset.batch", samples)),
            "boundaries": contender(bounded.batch, checked_starts(documents, seq_len)),
            "eos": contender(by_eos.batch, loader.Checked("TokenDataset.batch", samples)),
        },
        args.rounds,
        args.seconds,
    )
    for way, against, bar in (
        ("two tensors", "numpy", None),
        ("four tensors", "numpy", None),
        ("windows", "numpy", None),
        ("batch", "numpy", BAR),
        ("batch", "two tensors", None),
        ("boundaries", "numpy", BAR),
        ("boundaries", "four tensors", None),
        ("eos", "numpy", BAR),
        ("eos", "four tensors", None),
    ):
        yield results.Result(
            work="windows",
            case=f"{format}, batch {batch_size}, {way}",
            measured=rates[way] / rates[against],
            unit="of numpy" if against == "numpy" else f"of {against} alone",
            bar=bar,
            rates={"samples/s": rates[way], against: rates[against]},
        )


def measure_peer(path: Path, work: Path, batch_size: int, args: Any) -> Iterator[results.Result]:
    """Both ways against GPTDataset; nothing where it is not installed."""
    with contextlib.ExitStack() as stack:
        for found in peers.installed([PEER]):
            options = {"batch_size": batch_size, "num_workers": 0, "seq_len": args.seq_len}
            peer = stack.enter_context(peers.peer(found, work / "tokens.npy", work / "peers", **options))
            contenders: dict[str, timing.Contender] = {"peer": peer}
            for way in ("batch", "boundaries"):
                sample = {"seq_len": args.seq_len, "boundaries": way == "boundaries"}
                settings = corpora.settings(path, batch_size=batch_size, sample=sample, num_threads=0)
                made = tokenyard.build_dataloader(settings, rank=0, world_size=1)
                contenders[way] = timing.contender(timing.forever(made), batch_size, lambda batch: None)
            rates = timing.contest(contenders, args.peer_rounds, args.peer_seconds)
            for way in ("batch", "boundaries"):
                yield results.Result(
                    work="windows",
                    case=f"npy, batch {batch_size}, {way}, {PEER}",
                    measured=rates[way] / rates["peer"],
                    unit="times its rate",
                    bar=PEER_BAR,
                    rates={"samples/s": rates[way], "peer": rates["peer"]},
                )


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format at each batch size, then the peer."""
    parser = results.parser(__doc__)
    parser.add_argument("--samples", type=int, default=corpora.ROWS)
    parser.add_argument("--seq-len", type=int, default=corpora.SEQ_LEN)
    parser.add_argument("--document-mean", type=float, default=corpora.DOCUMENT_MEAN)
    parser.add_argument("--shards", type=int, default=corpora.SHARDS)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a round, for each way")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peer-rounds", type=int, default=5)
    parser.add_argument("--peer-seconds", type=float, default=0.4)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    timing.warm_allocator()
    tokens = corpora.zipf_rows(args.samples, args.seq_len).reshape(-1)
    documents = corpora.document_lengths(len(tokens), args.document_mean)
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for format in args.formats:
            corpora.write_documents(work / format, format, tokens, documents, args.shards)
            for batch_size in args.batch_sizes:
                found += measure(work / format, tokens, documents, format=format, batch_size=batch_size, args=args)
        if not args.no_peers and "npy" in args.formats:
            np.save(work / "tokens.npy", tokens)
            np.save(work / "lengths.npy", documents)
            found += measure_peer(work / "npy", work, args.batch_sizes[0], args)
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
