"""Opening: a corpus of 100,000 shards and 10^9 rows, and the first batch of an ordinary one.

The large corpus is a real one of one shard, whose entry in the manifest is repeated; shards are sparse files with a
header of their own and no tokens on disk. Opening is `open_corpus` in a new process, everything imported; memory is
what is resident and belongs to no file. The first batch is `build_dataloader` and its first batch, in a new process
that has imported torch and the loader, on a local corpus whose files are in the page cache; `again` is the same once
more in that process, when all that is only loaded as it is needed has been::

    python benchmarks/opening.py --shards 100000 --rows-per-shard 10000
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import corpora, results

QUICK = ["--shards", "1000", "--rows", "2048", "--repeats", "1"]
OPEN_SECONDS = 1.0
OPEN_MB = 100.0
FIRST_BATCH_MS = 50.0
_OPEN = """
import sys, time, json
sys.path.insert(0, sys.argv[1])
from benchmarks.memory import anonymous_mb
import tokenyard, tokenyard.datasets.loader, torch
before, started = anonymous_mb(), time.perf_counter()
corpus = tokenyard.open_corpus(sys.argv[2])
seconds = time.perf_counter() - started
print(json.dumps([seconds, anonymous_mb() - before, len(corpus)]))
"""
_FIRST_BATCH = """
import sys, time, json
sys.path.insert(0, sys.argv[1])
import tokenyard, tokenyard.datasets.loader, torch
taken = []
for _ in range(2):
    started = time.perf_counter()
    loader = tokenyard.build_dataloader(json.loads(sys.argv[2]), rank=0, world_size=1)
    batches = iter(loader)
    batch = next(batches)
    taken.append(1e3 * (time.perf_counter() - started))
    assert batch["input_ids"].numel()
    batches.close()
print(json.dumps(taken))
"""


def many_shards(path: Path, num_shards: int, rows_per_shard: int) -> None:
    """A corpus of npy shards whose tokens are all zero and take no space on the disk."""
    rows = np.zeros((rows_per_shard, corpora.SEQ_LEN), np.uint16)
    corpora.write(path, "npy", rows, 2 * rows.nbytes)
    file = path / ".tokenyard" / "manifest.json"
    manifest = json.loads(file.read_text())
    (shard,) = manifest["shards"]
    name, size, checksum = shard["files"][0]
    header = (path / name).read_bytes()[:128]
    shards = []
    for number in range(num_shards):
        other = f"shard-{number:06d}.npy"
        with open(path / other, "wb") as sparse:
            sparse.write(header)
            sparse.truncate(size)
        shards.append(shard | {"files": [[other, size, checksum]]})
    (path / name).unlink()
    for total in ("rows", "tokens", "bytes"):
        manifest[total] *= num_shards
    lines = [f'  "{key}": {json.dumps(value)}' for key, value in manifest.items() if key != "shards"]
    listed = ",\n".join("    " + json.dumps(entry) for entry in shards)
    file.write_text("{\n" + ",\n".join([*lines, f'  "shards": [\n{listed}\n  ]']) + "\n}\n")


def in_new_processes(code: str, argument: str, repeats: int) -> list[float]:
    """The medians of the numbers that code prints."""
    root = str(Path(__file__).resolve().parent.parent)
    command = [sys.executable, "-c", code, root, argument]
    runs = [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(repeats)]
    return [statistics.median(values) for values in zip(*runs, strict=True)]


def measure_large(path: Path, num_shards: int, rows_per_shard: int, repeats: int) -> list[results.Result]:
    """Time and memory of opening many shards, and the first batch of them."""
    many_shards(path, num_shards, rows_per_shard)
    seconds, mb, num_rows = in_new_processes(_OPEN, str(path), repeats)
    if num_rows != num_shards * rows_per_shard:
        raise SystemExit(f"{num_rows} rows were opened, {num_shards * rows_per_shard} written")
    case = f"{num_shards:,} shards, {num_shards * rows_per_shard:,} rows"
    return [
        results.Result(work="opening", case=case, measured=seconds, unit="s", bar=OPEN_SECONDS, at_most=True),
        results.Result(work="opening", case=case, measured=mb, unit="MB", bar=OPEN_MB, at_most=True),
        *first_batch(path, case, repeats, {"seq_len": corpora.SEQ_LEN}, bar=None),
    ]


def first_batch(
    path: Path, case: str, repeats: int, sample: dict[str, Any], *, bar: float | None = FIRST_BATCH_MS
) -> list[results.Result]:
    """Milliseconds from nothing opened to the first batch."""
    settings = json.dumps(corpora.settings(path, batch_size=16, sample=sample))
    first, again = in_new_processes(_FIRST_BATCH, settings, repeats)
    return [
        results.Result(
            work="first batch", case=name, measured=ms, unit="ms after opening began", bar=compared, at_most=True
        )
        for name, ms, compared in ((case, first, bar), (f"{case}, again", again, None))
    ]


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure opening, then the first batch of each format."""
    parser = results.parser(__doc__)
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--rows-per-shard", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=corpora.ROWS, help="of an ordinary corpus")
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset", "parquet"])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args(arguments)
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as folder:
        found += measure_large(Path(folder) / "large", args.shards, args.rows_per_shard, args.repeats)
        tokens = corpora.zipf_rows(args.rows)
        for format in args.formats:
            path = Path(folder) / format
            corpora.write_rows(path, format, tokens)
            found += first_batch(path, format, args.repeats, {"mode": "rows"})
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
