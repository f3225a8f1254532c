"""A window as it is told: one line for people, a record for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tokenyard.monitor.collector import StepTimes
from tokenyard.monitor.figures import Figures
from tokenyard.monitor.ranks import RankWindow
from tokenyard.monitor.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Report:
    """One window of this rank.

    Attributes:
        figures: what was measured.
        verdict: what holds the run back; None where nothing does.
        ranks: the last window of each rank that is seen, on rank 0.
        ranks_unknown: why others aren't; empty where they are, or there are none.
    """

    figures: Figures
    verdict: Verdict | None
    ranks: Sequence[RankWindow] = ()
    ranks_unknown: str = ""

    def line(self) -> str:
        """Return it as a line of a log."""
        f = self.figures
        parts = [
            f"step {f.step}",
            f"{f.num_steps / f.seconds:.3g} steps/s",
            f"{_count(f.num_tokens / f.seconds)} tokens/s",
            f"data wait {f.wait_share:.0%}",
            f"GPU {'?' if f.gpu.utilisation is None else f'{f.gpu.utilisation:.0f}%'}",
        ]
        if f.system.disk is not None:
            parts.append(
                f"{f.system.disk.name} {f.system.disk.read_mb_per_s:.0f} MB/s {f.system.disk.utilisation:.0f}%"
            )
        if f.cache is not None:
            late = f", {f.cache.evicted_late} evicted late" if f.cache.evicted_late else ""
            parts.append(
                f"cache {f.cache.hits} hits, {f.cache.waits} waits{late}, {f.fetched_mb_per_s:.1f} MB/s fetched"
            )
        if len(self.ranks) > 1:
            shares = [w.wait_share for w in self.ranks]
            parts.append(f"{len(self.ranks)} ranks wait {min(shares):.0%} to {max(shares):.0%}")
        return "  ".join(parts) + (f"\n    {self.verdict}" if self.verdict else "")

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        f = self.figures
        stages = {name: taken._asdict() for name, taken in f.making.stages.items()}
        return {
            **asdict(f),
            "making": {**asdict(f.making), "stages": stages, "wall_ms": f.making.wall_ms},
            "steps_per_s": f.num_steps / f.seconds,
            "tokens_per_s": f.num_tokens / f.seconds,
            "wait_share": f.wait_share,
            "fetched_mb_per_s": f.fetched_mb_per_s,
            "verdict": None if self.verdict is None else asdict(self.verdict),
            "ranks": [asdict(window) for window in self.ranks],
            "ranks_unknown": self.ranks_unknown,
        }

    def scalars(self) -> dict[str, float]:
        """Return the figures that are drawn over time."""
        f, disk, cache = self.figures, self.figures.system.disk, self.figures.cache
        found = {
            "steps_per_s": f.num_steps / f.seconds,
            "tokens_per_s": f.num_tokens / f.seconds,
            "wait_ms": f.wait_ms,
            "compute_ms": f.compute_ms,
            "wait_share": f.wait_share,
            "batch_ms": f.making.wall_ms,
            "gpu_utilisation": f.gpu.utilisation,
            "disk_read_mb_per_s": None if disk is None else disk.read_mb_per_s,
            "disk_utilisation": None if disk is None else disk.utilisation,
            "received_mb_per_s": f.system.received_mb_per_s,
            "cache_hits": None if cache is None else cache.hits,
            "cache_waits": None if cache is None else cache.waits,
            "cache_wait_ms": None if cache is None else cache.wait_ns / 1e6,
            "cache_evicted_late": None if cache is None else cache.evicted_late,
            "fetched_mb_per_s": f.fetched_mb_per_s,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass
class Summary:
    """All steps of a run together, and the verdicts of its windows.

    Attributes:
        num_steps: all that were seen, also those too few for a window.
        waited: seconds, for data.
        waited_first: of these, in the first step of each iteration, before which nothing is read ahead.
        computed: seconds.
        windows: that were reported.
    """

    num_steps: int = 0
    waited: float = 0.0
    waited_first: float = 0.0
    computed: float = 0.0
    windows: int = 0

    def __post_init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._last: dict[str, Verdict] = {}

    def add_steps(self, steps: Sequence[StepTimes]) -> None:
        """Count steps, and the seconds that they waited and computed."""
        self.num_steps += len(steps)
        self.waited += sum(step.waited for step in steps)
        self.waited_first += sum(step.waited for step in steps if step.is_first)
        self.computed += sum(step.computed for step in steps)

    def add(self, report: Report) -> None:
        """Count a window and its verdict."""
        self.windows += 1
        if report.verdict is not None:
            self._verdicts[report.verdict.kind] += 1
            self._last[report.verdict.kind] = report.verdict

    def text(self) -> str:
        """Return it as lines of a log."""
        seconds = self.waited + self.computed
        if not seconds:
            return "no steps were seen"
        lines = [
            f"{self.num_steps} steps in {seconds:.0f} s: {self.waited:.1f} s waiting for data, "
            f"{self.waited / seconds:.1%} of the time; {self.waited_first:.1f} s of it in the first step of an "
            "iteration, which windows leave out"
        ]
        lines += [
            f"    in {count} of {self.windows} windows {self._last[kind]}"
            for kind, count in self._verdicts.most_common()
        ]
        return "\n".join(lines)


def _count(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"
