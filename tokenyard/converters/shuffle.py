"""Rows shuffled on disk, by the order's own keyed permutation: row i of the result is row perm(i) of the source.

Two stages. Each task of the first reads about a shard's rows in order, and writes them as a shard of npy in the job's
folder, sorted by the task of the second stage that takes them, with the row at which each one's part begins. Each task
of the second stage takes its part of every such shard, puts the rows in their places, and writes its shard. So memory
holds what one task reads or writes, any format is read in order and once, and the rows lie on the disk once more until
the job ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.converters.job import READ_TOKENS, Target, TaskOutput, read_back, total_counts, write_shards
from tokenyard.converters.ledger import Ledger
from tokenyard.converters.row_sums import RowSum, sum_of
from tokenyard.converters.run import Job
from tokenyard.converters.source_check import check_source, digests_read
from tokenyard.converters.taking import take
from tokenyard.corpus import JOB_FOLDER, Corpus
from tokenyard.digest import DIGEST_BLOCK_ROWS, Digester
from tokenyard.errors import VerificationError
from tokenyard.formats.registry import get_format
from tokenyard.manifest import ShardInfo
from tokenyard.permutation import key, perm, perm_inverses
from tokenyard.permutation.checks import check_int
from tokenyard.permutation.keyed import KEY_LIMIT
from tokenyard.rows import RowBatch

#: Names of counts: the sums of the digests of rows that were read, and of those written.
READ, WRITTEN = "read", "written"
#: The purpose of the key, that of a global shuffle.
_PURPOSE = 2
_FOLDER = f"{JOB_FOLDER}/scattered/"
#: How full a shard is by plan: rows that come by chance take now more bytes, now less, and what is too much would make
#: a second, small shard.
_FILL = 15 / 16


@dataclass(frozen=True, kw_only=True)
class _Shuffling:
    """What all tasks share. ``scattered``: the shards of the first stage, once it is done."""

    source: Corpus
    target: Target
    key: int
    reads: Sequence[range]
    writes: Sequence[range]
    scattered: Sequence[ShardInfo]


def plan_shuffle(job: Job[range], source: Corpus, seed: int) -> Job[range]:
    """The job of a conversion, changed into one that shuffles. Raises ConfigError for what is no seed."""
    check_int("shuffle (a seed)", seed, at_least=0, below=KEY_LIMIT)
    reads, writes = job.tasks, _cut(len(source), len(job.tasks))

    def shared(target: Target) -> _Shuffling:
        first = Ledger(target.folder).read(range(len(reads)))
        return _Shuffling(
            source=source,
            target=target,
            key=key(seed, 0, _PURPOSE, 0),
            reads=reads,
            writes=writes,
            scattered=[shard for n in sorted(first) for shard in first[n].shards],
        )

    options = {**job.provenance["options"], "shuffle": seed}
    return replace(
        job,
        provenance={**job.provenance, "options": options},
        tasks=[*reads, *writes],
        num_first=len(reads),
        described=[["scatter", *job_rows] for job_rows in job.described] + [["write", w.start, w.stop] for w in writes],
        shared=shared,
        run=shuffle_task,
        total=2 * job.total,
        check=lambda _, outputs: _check(source, outputs),
    )


def shuffle_task(shared: Any, task: tuple[int, range]) -> TaskOutput:
    """One task of either stage."""
    number, rows = task
    if number < len(shared.reads):
        return _scatter(shared, number, rows)
    return _write(shared, number, rows)


def _cut(num_rows: int, num_runs: int) -> list[range]:
    """Rows of the result cut into runs of equal length, at multiples of 1,024."""
    step = int(_FILL * num_rows / max(1, num_runs)) // DIGEST_BLOCK_ROWS * DIGEST_BLOCK_ROWS
    step = max(step, DIGEST_BLOCK_ROWS) if num_runs > 1 else max(1, num_rows)
    return [range(start, min(start + step, num_rows)) for start in range(0, num_rows, step)]


def _scatter(job: _Shuffling, number: int, rows: range) -> TaskOutput:
    """Write rows of the source, sorted by the task that takes them."""
    read, parts, first = Digester(job.source.schema.fields), list[RowBatch](), rows.start
    for batch in job.source.batches(rows.start, rows.stop, max_tokens=READ_TOKENS):
        parts.append(batch.cast(job.target.schema.token_dtype, first))
        read.update(parts[-1])
        first += len(batch)
    batch = RowBatch.concat(parts)
    del parts
    places = perm_inverses(len(job.source), job.key, np.arange(rows.start, rows.stop))
    takers = np.searchsorted([w.start for w in job.writes], places, side="right") - 1
    order = np.argsort(takers, kind="stable")
    target = _scattered(job.target)
    shards, leaves = write_shards(target, number, [take(batch, order)])
    begins = np.searchsorted(takers[order], np.arange(len(job.writes) + 1))
    job.target.folder.write(_begins_name(target, number), begins.astype("<i8").tobytes())
    size = sum(s.num_bytes for s in shards)
    return TaskOutput(
        shards=shards, leaves=leaves, num_bytes=size, counts=sum_of([batch]).counts(READ), read=read.finish()
    )


def _write(job: _Shuffling, number: int, places: range) -> TaskOutput:
    """Write rows of the result."""
    number -= len(job.reads)
    target = _scattered(job.target)
    corpus = read_back(target, job.scattered)
    parts = [RowBatch.empty(target.schema)]
    for task, rows in enumerate(job.reads):
        start, stop = (rows.start + begin for begin in _begins(target, task, number, len(job.writes)))
        parts += corpus.batches(start, stop, max_tokens=max(1, corpus.num_tokens))
    # They come in the order of the source.
    sources = perm(len(job.source), job.key, np.arange(places.start, places.stop))
    ranks = np.empty(len(sources), np.int64)
    ranks[np.argsort(sources)] = np.arange(len(sources))
    batch = RowBatch.concat(parts)
    del parts
    batch = take(batch, ranks)
    shards, leaves = write_shards(job.target, number, [batch], places.start)
    size = sum(s.num_bytes for s in shards)
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=size, counts=sum_of([batch]).counts(WRITTEN))


def _scattered(target: Target) -> Target:
    """Where the first stage writes."""
    npy = get_format("npy")
    return replace(target, format=npy, options=npy.options({"shard_bytes": 1 << 62}), within=_FOLDER)


def _begins_name(target: Target, task: int) -> str:
    return f"{target.prefix(task)}begins"


def _begins(target: Target, task: int, part: int, num_parts: int) -> NDArray[np.int64]:
    """int64[2]: where a task's part of a scattered shard begins and ends, counted in the shard."""
    file = target.folder.raw(_begins_name(target, task), 8 * (num_parts + 1))
    return file.read(8 * part, 8 * part + 16).view("<i8").astype(np.int64)


def _check(source: Corpus, outputs: Sequence[TaskOutput]) -> None:
    check_source(source, digests_read(source, outputs))
    counts = total_counts(outputs)
    read, written = RowSum.of_counts(counts, READ), RowSum.of_counts(counts, WRITTEN)
    if read != written:
        raise VerificationError(
            f"{source.path}: {read.num_rows} rows of digest {read} were read, but {written.num_rows} rows of digest "
            f"{written} written; the disk or its driver lost data. Nothing was published"
        )
