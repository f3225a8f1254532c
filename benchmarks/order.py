"""What the order of samples costs: to start, to go on from any place, and on the way. Reads no corpus.

Starting and going on: a plan, a sampler, its state where there is one, and the first micro-batch, with nothing kept in
memory from before. The time and the memory should hang neither on how many samples there are nor on how many are past.
On the way: all micro-batches of one rank that takes the whole global batch, by seconds of one core; `draws` is the
arithmetic alone, `requests` what the sampler hands out, in micro-batches of 16 and of all. What it hands out is looked
up again by the inverse of the order.

    python benchmarks/order.py --kinds block mixture
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from tokenyard.datasets.batches import FixedBatches
from tokenyard.datasets.order import resolve
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.schedule import schedule
from tokenyard.datasets.order.segment import Segment, Source
from tokenyard.datasets.rank_context import RankContext
from tokenyard.datasets.sampler import RankSampler, Request

QUICK = ["--samples", "10", "1000000000000", "--past", "0", "1000000", "--taken", "8192", "--repeats", "1"]
KINDS = ("block", "global", "mixture")
SHARES = (0.5, 0.3, 0.2)
MICRO = 16


def sampler_of(kind: str, num_samples: int, batch_size: int, seed: int, micro: int | None = None) -> RankSampler:
    """The sampler of one rank over so many samples; a mixture has three sources that share them."""
    is_mixture = kind == "mixture"
    sizes = [int(num_samples * share) for share in SHARES] if is_mixture else [num_samples]
    firsts = {f"source {k}": sum(sizes[:k]) for k in range(len(sizes))}
    segment = Segment(
        order=resolve(
            num_samples=min(sizes),
            global_batch_size=batch_size,
            seed=seed,
            shuffle="global" if kind == "global" else "block",
            is_mixture=is_mixture,
        ),
        global_batch_size=batch_size,
        sources=tuple(
            Source(id=name, num_samples=size, number=k, weight=share)
            for k, (name, size, share) in enumerate(zip(firsts, sizes, SHARES, strict=False))
        ),
        is_mixture=is_mixture,
        epoch_samples=num_samples if is_mixture else None,
    )
    alone = RankContext(rank=0, world_size=1, first_id=lambda name, seq_len: firsts[name])
    return RankSampler(FixedBatches(Plan([segment]), alone, micro_batch_size=micro))


def check(sampler: RankSampler, request: Request, batch_size: int) -> None:
    """Look up where the order has the samples of a micro-batch. Stops where it is elsewhere."""
    assert isinstance(sampler.batches, FixedBatches)
    plan, batch = sampler.batches.plan, request.micro_batch
    sources = {source.number: source for source in plan.segments[0].sources}
    sizes = [source.num_samples for source in sources.values()]
    slots = range(request.number * len(batch.sample_ids), batch_size)
    numbers = np.zeros_like(batch.epochs) if batch.sources is None else batch.sources
    for slot, sample, epoch, source in zip(
        slots, batch.sample_ids.tolist(), batch.epochs.tolist(), numbers.tolist(), strict=False
    ):
        if (request.step, slot) not in plan.find(epoch, sample - sum(sizes[:source]), source):
            raise SystemExit(
                f"sample {sample} was given at step {request.step} in slot {slot}, where it doesn't belong"
            )


def begun(kind: str, num_samples: int, batch_size: int, seed: int, state: str | None) -> tuple[RankSampler, Request]:
    """A sampler, where a state was taken or at the start, and its first micro-batch."""
    sampler = sampler_of(kind, num_samples, batch_size, seed)
    if state is not None:
        sampler.load_state_dict(json.loads(state))
    return sampler, next(sampler.requests(sampler.begin()))


#: No seed comes twice in a process, so that no table of an earlier measurement is of use.
_SEEDS = count()


def measure_starts(kind: str, num_samples: int, past: list[int], repeats: int) -> Iterator[dict[str, Any]]:
    """Median milliseconds and peak memory of going on when so many samples are past."""
    batch_size = min(64, num_samples // 5)
    for samples in past:
        step = samples // batch_size
        seconds, peaks = [], []
        for number in range(2 * repeats):
            seed = next(_SEEDS)
            state = json.dumps(sampler_of(kind, num_samples, batch_size, seed).state_dict(step)) if step else None
            schedule.cache_clear()
            if number % 2:
                tracemalloc.start()
                sampler, request = begun(kind, num_samples, batch_size, seed, state)
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
            else:
                started = time.process_time()
                sampler, request = begun(kind, num_samples, batch_size, seed, state)
                seconds.append(time.process_time() - started)
            if request.step != step:
                raise SystemExit(f"a state of step {step} went on with step {request.step}")
        check(sampler, request, batch_size)
        yield {
            "kind": kind,
            "samples": num_samples,
            "past": samples,
            "ms": 1e3 * float(np.median(seconds)),
            "KiB": float(np.median(peaks)) / 1024,
        }


def drawn(sampler: RankSampler, batch_size: int) -> Iterator[int]:
    """Draw about 16,384 samples at a time, and yield how many."""
    assert isinstance(sampler.batches, FixedBatches)
    plan, slots, step = sampler.batches.plan, np.arange(batch_size), 0
    count = max(1, 16384 // batch_size)
    while True:
        yield plan.draws(step, count, slots).sample_ids.size
        step += count


def rate(parts: Iterator[Any], size: Callable[[Any], int], num_samples: int, repeats: int) -> tuple[float, Any]:
    """Median samples a second of one core, and the last part. What is needed once, to start, is left out."""
    rates, last = [], None
    for repeat in range(repeats + 1):
        taken, started = 0, time.process_time()
        while taken < num_samples:
            last = next(parts)
            taken += size(last)
        if repeat:
            rates.append(taken / (time.process_time() - started))
    return float(np.median(rates)), last


def measure_rates(
    kind: str, num_samples: int, batch_sizes: list[int], taken: int, repeats: int
) -> Iterator[dict[str, Any]]:
    """Median samples a second of each way, at each global batch; none finds the tables of another."""
    for batch_size in batch_sizes:
        found: dict[str, Any] = {"kind": kind, "batch": batch_size}
        sampler = sampler_of(kind, num_samples, batch_size, seed=3 * batch_size)
        found["draws"], _ = rate(drawn(sampler, batch_size), lambda size: size, taken, repeats)
        for seed, (name, micro) in enumerate((("requests of 16", MICRO), ("requests", None)), 3 * batch_size + 1):
            sampler = sampler_of(kind, num_samples, batch_size, seed, micro)
            requests = sampler.requests(sampler.begin())
            found[name], last = rate(requests, lambda request: len(request.micro_batch.sample_ids), taken, repeats)
            check(sampler, last._replace(micro_batch=_some(last)), batch_size)
        found["us per 16"] = 1e6 * MICRO / found["requests of 16"]
        yield found


def _some(request: Request) -> Any:
    batch = request.micro_batch
    return batch._replace(sample_ids=batch.sample_ids[:MICRO])


def worst(starts: list[dict[str, Any]], rates: list[dict[str, Any]]) -> list[results.Result]:
    """What the order costs at most, by kind: to go on anywhere, and for 16 samples on the way."""
    return [
        results.Result(work=work, case=kind, measured=max(row[key] for row in rows if row["kind"] == kind), unit=unit)
        for work, rows, key, unit in (
            ("order, to go on", starts, "ms", "ms at most"),
            ("order, on the way", rates, "us per 16", "us for 16 samples"),
        )
        for kind in dict.fromkeys(row["kind"] for row in rows)
    ]


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each kind of order."""
    parser = results.parser(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--samples", type=int, nargs="+", default=[10, 10**6, 10**12], help="in the corpora to start")
    parser.add_argument("--past", type=int, nargs="+", default=[0, 10, 10**6, 10**9, 10**12 - 64])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 512, 4096])
    parser.add_argument("--taken", type=int, default=1 << 20, help="samples to take for a rate")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args(arguments)
    starts = [
        row for kind in args.kinds for n in args.samples for row in measure_starts(kind, n, args.past, args.repeats)
    ]
    rates = [
        row
        for kind in args.kinds
        for row in measure_rates(kind, max(args.samples), args.batch_sizes, args.taken, args.repeats)
    ]
    if args.json:
        print(json.dumps({"starts": starts, "rates": rates}, indent=2))
        return worst(starts, rates)
    for row in starts:
        print(
            f"{row['kind']}, {row['samples']:,} samples an epoch, {row['past']:,} past: {row['ms']:.1f} ms to go on, "
            f"{row['KiB']:,.0f} KiB"
        )
    print()
    for row in rates:
        ways = ", ".join(f"{way} {row[way] / 1e6:.1f}" for way in ("draws", "requests", "requests of 16"))
        print(
            f"{row['kind']}, batches of {row['batch']}: M samples/s: {ways}; {row['us per 16']:.1f} us for 16 samples"
        )
    return worst(starts, rates)


if __name__ == "__main__":
    main()
