"""What `tokenyard.Monitor` costs: the loader with it and without it, in turn.

The work: batches of 16 samples of 2,048 tokens. A step is 5 ms in which the loop sleeps, as one that waits for its GPU
does. Told are the shares of such a step that the monitor takes of the processor: of the loop's own thread, and of the
whole process (its thread, and the clocks of the loader's threads), each with the monitor less without it. Then how many
windows of a run that doesn't wait got a verdict, which would be a false alarm::

    python benchmarks/monitor.py --seconds 300
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import corpora, results, timing

QUICK = ["--rows", "512", "--rounds", "2", "--steps", "20", "--seconds", "4", "--window-seconds", "1"]
STEP_SECONDS = 5e-3
#: Of a step.
BAR = 0.01


def take(batches: Iterator[Any], num_steps: int) -> tuple[float, float]:
    """Processor seconds of a step: of the loop's thread, and of the whole process."""
    thread, process = time.thread_time(), time.process_time()
    for _ in range(num_steps):
        next(batches)
        time.sleep(STEP_SECONDS)
    return (time.thread_time() - thread) / num_steps, (time.process_time() - process) / num_steps


def costs(path: Path, rounds: int, num_steps: int) -> Iterator[results.Result]:
    """Both ways in turn; the median of the differences of each round."""
    made = [
        tokenyard.build_dataloader(corpora.settings(path, batch_size=16, sample={"mode": "rows"}), 0, 1)
        for _ in range(2)
    ]
    differences: list[tuple[float, float]] = []
    plain, watched = (timing.forever(loader) for loader in made)
    with tokenyard.Monitor(made[1], every_seconds=1.0, stream=io.StringIO()):
        for _ in range(rounds):
            without, with_it = take(plain, num_steps), take(watched, num_steps)
            differences.append((with_it[0] - without[0], with_it[1] - without[1]))
    # An iterator that is left is closed here, and not while a measurement runs.
    del plain, watched
    loop, process = np.median(np.array(differences), axis=0) / STEP_SECONDS
    for case, share, bar in (("the loop's thread", loop, BAR), ("the whole process", process, None)):
        yield results.Result(
            work="monitor",
            case=f"{case}, reports every second",
            measured=100 * float(share),
            unit="% of a step of 5 ms",
            bar=None if bar is None else 100 * bar,
            at_most=True,
            rates={"microseconds a step": 1e6 * STEP_SECONDS * float(share)},
        )


def false_alarms(path: Path, seconds: float, window_seconds: float) -> results.Result:
    """Verdicts on a run whose steps take 50 ms, ten times and more what its batches take to make."""
    loader = tokenyard.build_dataloader(
        corpora.settings(path, batch_size=16, sample={"mode": "rows"}, prefetch_factor=8), 0, 1
    )
    until = time.monotonic() + seconds
    with tokenyard.Monitor(loader, every_seconds=window_seconds, quiet=True) as monitor:
        for _ in timing.forever(loader):
            time.sleep(10 * STEP_SECONDS)
            if time.monotonic() > until:
                break
    verdicts = [str(report.verdict) for report in monitor.reports if report.verdict is not None]
    for verdict in verdicts:
        print(verdict, file=sys.stderr)
    return results.Result(
        work="monitor",
        case="a run that doesn't wait",
        measured=len(verdicts),
        unit=f"verdicts in {len(monitor.reports)} windows of {window_seconds:g} s",
        bar=0,
        at_most=True,
    )


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure the cost, then look for false alarms."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, default=corpora.ROWS)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=50, help="of a round, for each way")
    parser.add_argument("--seconds", type=float, default=60, help="of the run that is watched for false alarms")
    parser.add_argument("--window-seconds", type=float, default=2.0)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "npy"
        corpora.write_rows(path, "npy", corpora.zipf_rows(args.rows, corpora.SEQ_LEN), 8)
        found = [*costs(path, args.rounds, args.steps), false_alarms(path, args.seconds, args.window_seconds)]
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
