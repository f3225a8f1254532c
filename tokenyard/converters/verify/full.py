"""Reading all rows of a corpus in parallel: what is wrong with its shards, and the leaves of its digest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tokenyard.converters.executor import run_tasks
from tokenyard.converters.verify.meter import Meter
from tokenyard.converters.verify.plan import plan_runs
from tokenyard.converters.verify.report import Problem
from tokenyard.converters.verify.shards import Outcome, check_outside, check_run
from tokenyard.corpus import Corpus
from tokenyard.digest import Digests, combine

#: Shards that one task looks at from outside.
_OUTSIDE_SHARDS = 512
#: Rows of shards that can't be read; with more, which nothing but the manifest says are there, the others aren't read.
_MAX_LOST_ROWS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What reading a corpus gave. ``digests``: None when some rows can't be read."""

    problems: tuple[Problem, ...]
    outcomes: tuple[Outcome, ...]
    digests: Digests | None

    def leaves(self, name: str) -> list[bytes | None]:
        """The leaf of each digest block, of the tokens or of a field; None for one with rows that can't be read."""
        return [leaf for outcome in self.outcomes for leaf in outcome.blocks[name]]


def quick_check(corpus: Corpus, num_workers: int, meter: Meter) -> list[Problem]:
    """What can be seen of the shards without decoding one."""
    count = len(corpus.manifest.shards)
    tasks = [range(a, min(a + _OUTSIDE_SHARDS, count)) for a in range(0, count, _OUTSIDE_SHARDS)]
    found: dict[int, list[Problem]] = {}
    for number, problems in run_tasks(check_outside, corpus, tasks, num_workers):
        found[number] = problems
        begins, tokens = corpus.shard_row_starts, corpus.shard_token_starts
        first, end = tasks[number].start, tasks[number].stop
        meter.add(int(begins[end] - begins[first]), int(tokens[end] - tokens[first]))
    return [p for i in range(len(tasks)) for p in found[i]]


def full_check(corpus: Corpus, num_workers: int, meter: Meter) -> Checked:
    """Every file and every row."""
    silent = Meter(None)
    outside = quick_check(corpus, num_workers, silent)
    unreadable = frozenset(p.shard for p in outside if p.shard is not None)
    rows = corpus.manifest.rows_of_shards
    if sum(int(rows[shard]) for shard in unreadable) > _MAX_LOST_ROWS:
        return Checked(problems=tuple(_in_order(outside)), outcomes=(), digests=None)
    runs = plan_runs(corpus)
    found: dict[int, Outcome] = {}
    for number, outcome in run_tasks(check_run, (corpus, unreadable), runs, num_workers):
        found[number] = outcome
        meter.add(runs[number].num_rows, runs[number].num_rows * corpus.num_tokens // max(1, len(corpus)))
    outcomes = [found[i] for i in range(len(runs))]
    leaves = [o.leaves for o in outcomes if o.leaves is not None]
    whole = len(leaves) == len(outcomes)
    return Checked(
        problems=tuple(_in_order([*outside, *(p for o in outcomes for p in o.problems)])),
        outcomes=tuple(outcomes),
        digests=combine(leaves) if whole else None,
    )


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Problems by shard, and by row where they name some."""
    return sorted(problems, key=lambda p: (-1 if p.shard is None else p.shard, p.rows or (-1, -1)))
