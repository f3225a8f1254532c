"""Memory of a process that loads: over an epoch, over worker processes, and over the size of the corpus.

Counted is what is resident and belongs to no file (`Anonymous` in Linux's smaps_rollup): pages of mapped shards are the
page cache's, and the system takes them back. What the process had after importing torch is taken off; a worker process
is forked and shares pages with its parent, so each counts with the share that is its own (`Pss_Anon`). Every case runs
in a process of its own::

    python benchmarks/memory.py --rows 4096 24576
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import corpora, results

QUICK = ["--rows", "512", "2048", "--formats", "npy", "parquet"]
BAR_MB = 200.0
FLAT_MB = 16.0
#: Where in the epoch memory is looked at.
PARTS = 8


def anonymous_mb(pid: int | str = "self", entry: str = "Anonymous") -> float:
    """MB that are resident and belong to no file."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(entry + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"no {entry} in /proc/{pid}/smaps_rollup; Linux 5.9 or newer has it")


def children(pid: int) -> list[int]:
    """The process ids of a process's children."""
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def run_epoch(settings: dict[str, Any]) -> dict[str, Any]:
    """Load an epoch in this process, and tell MB beyond torch at each part of it.

    ``main``: this process; ``worker``: the largest of its workers.
    """
    import torch

    before = anonymous_mb()
    import tokenyard

    torch.set_num_threads(1)
    loader = tokenyard.build_dataloader(settings, rank=0, world_size=1)
    marks = {len(loader) * part // PARTS for part in range(1, PARTS + 1)}
    found: dict[str, list[float]] = {"main": [], "worker": []}
    for count, _ in enumerate(loader, 1):
        if count in marks:
            found["main"].append(anonymous_mb() - before)
            found["worker"].append(max((anonymous_mb(c, "Pss_Anon") for c in children(os.getpid())), default=0.0))
    return found


def in_a_process(settings: dict[str, Any]) -> dict[str, list[float]]:
    """The same in a new process."""
    command = [sys.executable, __file__, "--epoch", json.dumps(settings)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format, size and number of workers."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[corpora.ROWS // 6, corpora.ROWS])
    parser.add_argument("--seq-len", type=int, default=corpora.SEQ_LEN)
    parser.add_argument("--shards", type=int, default=corpora.SHARDS)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset", "parquet"])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epoch", help="settings of one case, to run here")
    args = parser.parse_args(arguments)
    if args.epoch:
        print(json.dumps(run_epoch(json.loads(args.epoch))))
        return []
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for format in args.formats:
            for num_rows in args.rows:
                rows = corpora.zipf_rows(num_rows, args.seq_len)
                corpora.write_rows(Path(folder) / f"{format}-{num_rows}", format, rows, args.shards)
            for num_workers in args.workers:
                taken = {}
                for num_rows in args.rows:
                    path, sample = Path(folder) / f"{format}-{num_rows}", {"mode": "rows"}
                    settings = corpora.settings(
                        path, batch_size=args.batch_size, sample=sample, num_workers=num_workers
                    )
                    taken[num_rows] = in_a_process(settings)
                found += measured(f"{format}, {num_workers} workers", taken)
    return results.report(found, as_json=args.json)


def measured(case: str, taken: dict[int, dict[str, list[float]]]) -> Iterator[results.Result]:
    """What corpora of some numbers of rows took: at most, more at the end of an epoch than early, more than smaller."""
    for num_rows, parts in taken.items():
        most = {name: max(values) for name, values in parts.items()}
        yield _line(f"{case}, {num_rows:,} rows", max(most.values()), "MB beyond torch", BAR_MB, most)
        growth = max(values[-1] - values[0] for values in parts.values())
        yield _line(f"{case}, {num_rows:,} rows, over an epoch", growth, "MB more", FLAT_MB, {})
    smallest, largest = min(taken), max(taken)
    if smallest < largest:
        growth = max(max(taken[largest][name]) - max(taken[smallest][name]) for name in taken[largest])
        yield _line(f"{case}, {largest:,} rows and not {smallest:,}", growth, "MB more", FLAT_MB, {})


def _line(case: str, mb: float, unit: str, bar: float, rates: dict[str, float]) -> results.Result:
    return results.Result(work="memory", case=case, measured=mb, unit=unit, bar=bar, at_most=True, rates=rates)


if __name__ == "__main__":
    main()
