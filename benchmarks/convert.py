"""Conversion on one core, proof included, against what its parts cost alone and against the peers' own scripts.

`floor` is the work that no proven conversion can do without, measured by itself in the same run: the tokens hashed
twice, the files of the result hashed once, written and synced. A conversion from Parquet has the library's own reading
on top; one to Parquet is compared with the library writing the same rows with the same settings, and reading them back.
The fastest of pyarrow, arro3 and polars counts, of those that are installed. `peers` are the official libraries, reader
to writer, on the same shards. Rates are of tokens, ratios those of the parts of one round; medians of all rounds::

    python benchmarks/convert.py --layout documents --pairs npy:mds mds:webdataset
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import Any

import blake3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import peers, results
from tokenyard.rows import RowBatch, offsets_of

QUICK = ["--tokens", "400000", "--repeats", "1", "--no-peers"]
FLOOR_BAR, PEERS_BAR = 0.8, 5.0
SEQ_LEN = 2048
RAW = ("npy", "mds", "webdataset")
PAIRS = [*(f"{a}:{b}" for a, b in permutations(RAW, 2)), *(f"{f}:parquet" for f in RAW), *(f"parquet:{f}" for f in RAW)]
PEER_SCRIPT = Path(__file__).parent / "peer_scripts" / "convert.py"


def rows_of(layout: str, num_tokens: int) -> RowBatch:
    """Zipf tokens, in packed rows of 2,048 or in documents of log-normal lengths around 800."""
    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.2, num_tokens) % 50257).astype(np.uint16)
    if layout == "packed":
        lengths = np.full(num_tokens // SEQ_LEN, SEQ_LEN)
    else:
        drawn = rng.lognormal(np.log(800) - 0.6, 1.1, num_tokens // 400).astype(np.int64) + 1
        lengths = drawn[np.cumsum(drawn) <= num_tokens]
    return RowBatch(tokens=tokens[: lengths.sum()], offsets=offsets_of(lengths), fields={})


def write(path: Path, format: str, rows: RowBatch) -> None:
    schema = tokenyard.Schema(token_dtype="uint16", vocab_size=50257)
    with tokenyard.CorpusWriter(path, format=format, schema=schema) as writer:
        writer.write_batch(rows)


# ---- what the parts cost alone ----


def floor(result: Path, rows: RowBatch, scratch: Path) -> dict[str, float]:
    """Seconds of hashing the tokens twice, and of hashing and writing the files of ``result``."""
    files = {str(i): np.fromfile(p, np.uint8) for i, p in enumerate(sorted(result.rglob("*"))) if p.is_file()}
    tokens = rows.tokens.view(np.uint8)
    return {
        "digests": seconds(lambda: [blake3.blake3(tokens).digest() for _ in range(2)]),
        "checksum": seconds(lambda: [blake3.blake3(data).digest() for data in files.values()]),
        "write": seconds(lambda: [write_file(scratch / name, data) for name, data in files.items()]),
    }


def write_file(path: Path, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def parquet_libraries() -> dict[str, tuple[Callable[[pa.Table, Path], Any], Callable[[Path], Any]]]:
    """Write and read of each installed library: our rows, row groups, encoding and codec.

    All but polars, which has no choice of encodings, so that its files are a third larger.
    """
    settings = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": False,
        "column_encoding": {"tokens.list.element": "BYTE_STREAM_SPLIT"},
        "write_statistics": False,
        "row_group_size": 1024,
    }
    found: dict[str, tuple[Callable[[pa.Table, Path], Any], Callable[[Path], Any]]] = {
        "pyarrow": (lambda t, p: pq.write_table(t, p, **settings), lambda p: pq.read_table(p, use_threads=False))
    }
    if find_spec("arro3") and find_spec("arro3.io"):
        from arro3 import io as arro3

        given = {
            "compression": "zstd(1)",
            "dictionary_enabled": False,
            # By a single text it would know no column, and write PLAIN.
            "column_encoding": {("tokens", "list", "element"): "byte_stream_split"},
            "max_row_group_size": 1024,
        }
        found["arro3"] = (
            lambda t, p: arro3.write_parquet(t, p, **given),
            lambda p: pa.table(arro3.read_parquet(p).read_all()),
        )
    if find_spec("polars"):
        import polars

        found["polars"] = (
            lambda t, p: polars.from_arrow(t).write_parquet(
                p, compression="zstd", compression_level=1, row_group_size=1024, statistics=False
            ),
            lambda p: polars.read_parquet(p),
        )
    return found


def library_costs(rows: RowBatch, scratch: Path) -> dict[str, float]:
    """Seconds to write and to read back a Parquet file, each of the library that is fastest at both together."""
    offsets = pa.py_buffer(rows.offsets.astype(np.int32))
    items = pa.array(rows.tokens)
    type_ = pa.list_(pa.field("element", pa.uint16(), nullable=False))
    lists = pa.Array.from_buffers(type_, len(rows), [None, offsets], children=[items])
    table = pa.table([lists], schema=pa.schema([pa.field("tokens", type_, nullable=False)]))
    best: dict[str, float] = {}
    for name, (write_table, read_table) in parquet_libraries().items():
        path = scratch / f"{name}.parquet"
        costs = {"write": seconds(lambda w=write_table, p=path: w(table, p))}
        costs["read"] = seconds(lambda r=read_table, p=path: r(p))
        if not best or sum(costs.values()) < sum(best.values()):
            best = costs
    return best


# ---- measuring ----


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


@contextmanager
def one_core() -> Iterator[None]:
    """This process and what it starts, on one core, where the system can do that."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if allowed:
        os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)


def measure(source: Path, to: str, rows: RowBatch, repeats: int, folder: Path) -> dict[str, float]:
    """Median seconds of our conversion, of its floor and that one's parts, and the median ratio of the rounds."""
    is_from, is_to = source.name == "parquet", to == "parquet"
    result, scratch = folder / "result", folder / "scratch"
    rounds: list[dict[str, float]] = []
    for _ in range(repeats):
        with suppress(FileNotFoundError):
            shutil.rmtree(result)
        scratch.mkdir(exist_ok=True)
        ours = seconds(lambda: tokenyard.convert(source, result, to=to))
        parts = floor(result, rows, scratch)
        library = library_costs(rows, scratch) if is_from or is_to else {}
        alone = sum(parts.values()) + library.get("read", 0)
        least_work = library["write"] + library["read"] if is_to else alone
        named = {f"library {name}": cost for name, cost in library.items()}
        rounds.append({"ours": ours, "floor": least_work, "ratio": least_work / ours, **parts, **named})
    if tokenyard.open_corpus(result).digest != tokenyard.open_corpus(source).digest:
        raise SystemExit(f"{source.name} to {to} gave other rows than were written")
    shutil.rmtree(result)
    shutil.rmtree(scratch)
    return {name: float(np.median([r[name] for r in rounds])) for name in rounds[0]}


def measure_peers(python: Path, source: Path, to: str, folder: Path) -> float:
    """Seconds that the official libraries take from reader to writer, their imports left out."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        command = [python, "-I", PEER_SCRIPT, source, source.name, Path(temporary) / "result", to]
        environment = {**os.environ, "TMPDIR": temporary, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            list(map(str, command)), cwd=temporary, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"the peers' script failed: {done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each pair of formats."""
    parser = results.parser(__doc__)
    parser.add_argument("--tokens", type=int, default=24 << 20)
    parser.add_argument("--layout", choices=["packed", "documents"], default="packed")
    parser.add_argument("--pairs", nargs="+", default=PAIRS, metavar="FROM:TO")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true", help="leave the official libraries out")
    args = parser.parse_args(arguments)
    python = None if args.no_peers else peers.find_python()
    rows = rows_of(args.layout, args.tokens)
    found = []
    with tempfile.TemporaryDirectory() as name, one_core():
        folder = Path(name)
        for source, to in (pair.split(":") for pair in args.pairs):
            path = folder / source
            if not path.exists():
                write(path, source, rows)
            costs = measure(path, to, rows, args.repeats, folder)
            if python and "parquet" not in (source, to):
                costs["peers"] = measure_peers(python, path, to, folder)
            ratio = costs.pop("ratio")
            rates = {name: rows.num_tokens / 1e6 / cost for name, cost in costs.items()}
            found += told(f"{source} to {to}", ratio, rates)
    return results.report(found, as_json=args.json)


def told(case: str, ratio: float, rates: dict[str, float]) -> list[results.Result]:
    """The lines of a pair, from the ratio to its floor, and all rates in millions of tokens a second."""
    of_floor = {"measured": ratio, "unit": "of its parts", "bar": FLOOR_BAR}
    found = [results.Result(work="convert", case=case, rates=rates, **of_floor)]
    if "peers" in rates:
        times = {"measured": rates["ours"] / rates["peers"], "unit": "times the peers", "bar": PEERS_BAR}
        found.append(results.Result(work="convert", case=case, **times))
    return found


if __name__ == "__main__":
    main()
