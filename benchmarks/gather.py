"""Gather of shuffled rows from raw shards, against numpy's own fancy index on one array in memory.

Both do the same work in one process, interleaved batch by batch: take rows of 2,048 uint16 tokens by the same shuffled
indices, and cast to int64. Prints samples a second and the ratio for each format::

    python benchmarks/gather.py --rows 24576 --shards 24
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

import tokenyard

SEQ_LEN = 2048


def zipf_tokens(rows: int, seq_len: int, seed: int = 0) -> np.ndarray:
    """uint16[rows, seq_len] with the frequencies of natural text."""
    rng = np.random.default_rng(seed)
    return (rng.zipf(1.2, (rows, seq_len)) % 50257).astype(np.uint16)


def write(path: Path, format: str, tokens: np.ndarray, shards: int) -> tokenyard.Corpus:
    """A corpus of about ``shards`` shards with the rows of ``tokens``."""
    schema = tokenyard.Schema(token_dtype="uint16", vocab_size=50257)
    with tokenyard.CorpusWriter(path, format=format, schema=schema, shard_bytes=tokens.nbytes // shards) as writer:
        for row in tokens:
            writer.write(row)
    return tokenyard.open_corpus(path)


def measure(corpus: tokenyard.Corpus, tokens: np.ndarray, batch: int, repeats: int) -> tuple[float, float]:
    """Median samples a second of the corpus and of numpy, batches in turn."""
    rng = np.random.default_rng(1)
    ours, numpys = [], []
    for _ in range(repeats):
        order = rng.permutation(len(tokens))
        spent = [0.0, 0.0]
        for start in range(0, len(order) - batch + 1, batch):
            rows = order[start : start + batch]
            t0 = time.perf_counter()
            taken = corpus.gather_rows(rows)[0].reshape(batch, -1).astype(np.int64)
            t1 = time.perf_counter()
            wanted = tokens[rows].astype(np.int64)
            t2 = time.perf_counter()
            spent[0] += t1 - t0
            spent[1] += t2 - t1
        if not np.array_equal(taken, wanted):
            raise SystemExit(f"{corpus!r} gave other tokens than were written")
        done = len(order) // batch * batch
        ours.append(done / spent[0])
        numpys.append(done / spent[1])
    return float(np.median(ours)), float(np.median(numpys))


def main(arguments: list[str] | None = None) -> None:
    """Measure each format and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=24576)
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset"])
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(arguments)
    tokens = zipf_tokens(args.rows, SEQ_LEN)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for format in args.formats:
            corpus = write(Path(folder) / format, format, tokens, args.shards)
            for batch in (16, 64):
                ours, numpys = measure(corpus, tokens, batch, args.repeats)
                found.append(
                    {"format": format, "batch": batch, "samples/s": ours, "numpy": numpys, "ratio": ours / numpys}
                )
    if args.json:
        print(json.dumps(found, indent=2))
        return
    for row in found:
        print(
            "{format:12} batch {batch:3}  {samples/s:12,.0f} samples/s  numpy {numpy:12,.0f}  ratio {ratio:.2f}".format(
                **row
            )
        )


if __name__ == "__main__":
    main()
