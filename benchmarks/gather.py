"""Gather of shuffled rows from raw shards, against numpy's own fancy index on one array in memory.

Both do the same work in one process, batch by batch in turn: take rows of 2,048 uint16 tokens by the same shuffled
indices, as int64. Who begins changes with each batch, and the allocator is warm for both (see `timing`)::

    python benchmarks/gather.py --formats npy mds webdataset
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import corpora, results, timing

QUICK = ["--rows", "2048", "--repeats", "2"]
BAR = 0.8
_STRETCH = 32


def gather(corpus: tokenyard.Corpus, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[len(rows), seq_len]: what is measured."""
    return corpus.gather_rows(rows, dtype=np.int64)[0].reshape(len(rows), -1)


def measure(corpus: tokenyard.Corpus, tokens: corpora.Tokens, batch_size: int, repeats: int) -> tuple[float, float]:
    """Samples a second of the corpus and of numpy over some epochs: the median of stretches of 32 batches.

    Raises SystemExit when one gives other tokens than the other.
    """
    rng = np.random.default_rng(1)
    ways: list[tuple[int, Any]] = [
        (0, lambda rows: gather(corpus, rows)),
        (1, lambda rows: tokens[rows].astype(np.int64)),
    ]
    taken: list[Any] = [None, None]
    seconds: list[list[float]] = []
    for _ in range(repeats):
        order = rng.permutation(len(tokens))
        for start in range(0, len(order) - batch_size + 1, batch_size):
            rows = order[start : start + batch_size]
            spent = [0.0, 0.0]
            for number, way in ways:
                begun = time.perf_counter()
                taken[number] = way(rows)
                spent[number] = time.perf_counter() - begun
            ways.reverse()
            seconds.append(spent)
        if not np.array_equal(*taken):
            raise SystemExit(f"{corpus!r} gave other tokens than were written")
    stretches = [seconds[at : at + _STRETCH] for at in range(0, len(seconds), _STRETCH)]
    ours, numpys = np.median([np.mean(stretch, axis=0) for stretch in stretches], axis=0).tolist()
    return batch_size / ours, batch_size / numpys


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format at each batch size."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, default=corpora.ROWS)
    parser.add_argument("--shards", type=int, default=corpora.SHARDS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset"])
    args = parser.parse_args(arguments)
    timing.warm_allocator()
    tokens = corpora.zipf_rows(args.rows)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for format in args.formats:
            corpus = corpora.write_rows(Path(folder) / format, format, tokens, args.shards)
            for batch_size in args.batch_sizes:
                ours, numpys = measure(corpus, tokens, batch_size, args.repeats)
                found.append(
                    results.Result(
                        work="gather",
                        case=f"{format}, batch {batch_size}",
                        measured=ours / numpys,
                        unit="of numpy",
                        bar=BAR,
                        rates={"samples/s": ours, "numpy": numpys},
                    )
                )
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
