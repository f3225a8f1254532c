"""What all jobs share: planned rows, shards written and read back, progress, the final proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokenyard.converters.workers import Workers
from tokenyard.corpus import Corpus, ShardRoller
from tokenyard.corpus.places import INDEX_JOB
from tokenyard.digest import DIGEST_BLOCK_ROWS, Digester, Digests, Leaves, combine
from tokenyard.errors import VerificationError
from tokenyard.formats.base import Format, FormatOptions
from tokenyard.manifest import Manifest, ShardInfo
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema
from tokenyard.storage import Folder

#: What a row costs beyond its items.
_ROW_BYTES = 16
#: Tokens read at once. A shard's batches are held until it is written, and memory comes faster in pieces of 4 MB and
#: more, for which numpy asks for large pages; a processor's cache may hold such a piece until it is hashed.
READ_TOKENS = 1 << 21
_PLAN_ROWS = 1024 * DIGEST_BLOCK_ROWS
#: Seconds of one process in which others would hardly have begun.
_WORKER_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a job is: amounts done, and ``total`` of ``unit`` (``"tokens"``, or ``"bytes"`` of input).

    ``seconds`` are of this run; ``tokens_before`` and ``bytes_before`` were done by an earlier one.
    """

    rows: int
    tokens: int
    bytes: int
    unit: str
    total: int
    seconds: float
    tokens_before: int = 0
    bytes_before: int = 0

    @property
    def share(self) -> float:
        """The part that is done, 0 to 1."""
        return self._share(self.tokens, self.bytes)

    @property
    def tokens_per_second(self) -> float:
        """Of this run."""
        return (self.tokens - self.tokens_before) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At the rate of this run; None where it is not known yet."""
        done = self.share - self._share(self.tokens_before, self.bytes_before)
        return self.seconds * (1 - self.share) / done if done > 0 else None

    def _share(self, tokens: int, size: int) -> float:
        done = tokens if self.unit == "tokens" else size
        return min(1.0, done / self.total) if self.total else 1.0


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where the tasks of a job write, and how. ``num_tasks`` decides the width of the numbers in shard names.

    ``within``: the beginning of the names of all shards, of such as aren't part of the corpus: a folder, with ``/``.
    """

    folder: Folder
    format: Format
    schema: Schema
    options: FormatOptions
    num_tasks: int
    within: str = ""

    def prefix(self, task: int) -> str:
        """The beginning of the names of a task's shards; names sort in the order of the rows."""
        return f"{self.within}shard-{task:0{max(5, len(str(self.num_tasks - 1)))}d}-"


@dataclass(frozen=True, kw_only=True)
class TaskOutput:
    """What one task did: its shards, the digest leaves of their rows, counts by name.

    ``num_bytes`` are bytes written, or of input read where that is the measure of progress. ``read``: the digest leaves
    of the rows that it read from a corpus, where it writes others, or in another order.
    """

    shards: tuple[ShardInfo, ...]
    leaves: Leaves
    num_bytes: int
    counts: Mapping[str, int] = field(default_factory=dict)
    read: Leaves | None = None

    @property
    def num_rows(self) -> int:
        """Rows written."""
        return sum(s.num_rows for s in self.shards)

    @property
    def num_tokens(self) -> int:
        """Tokens written."""
        return sum(s.num_tokens for s in self.shards)


def write_shards(
    target: Target, number: int, batches: Iterable[RowBatch], first_row: int = 0
) -> tuple[tuple[ShardInfo, ...], Leaves]:
    """Write the rows of task ``number`` as shards, read them back, and prove that they are the same.

    Returns the shards, and the digest leaves of their rows.

    Raises VerificationError that names the shards when they differ, SchemaError that names the row (counted from
    ``first_row``) when an id doesn't fit.
    """
    given = Digester(target.schema.fields)
    prefix = target.prefix(number)
    roller = ShardRoller(target.folder, target.format, target.schema, target.options, prefix, first_row)
    with target.folder.synced_together():  # the disk writes while the shards are read back
        for batch in batches:
            batch = batch.cast(target.schema.token_dtype, first_row)
            first_row += len(batch)
            given.update(batch)
            roller.add(batch)
        shards = roller.close()
        leaves = given.finish()
        written = digest_rows(read_back(target, shards))
    if written != leaves:
        names = ", ".join(s.name for s in shards)
        raise VerificationError(
            f"{target.folder.path}: {names} read back differently from what was written; the disk or its driver lost "
            f"data, or format {target.format.name} has a defect. Nothing was published"
        )
    return shards, leaves


def read_back(target: Target, shards: Sequence[ShardInfo]) -> Corpus:
    """The shards as a corpus of their own."""
    manifest = Manifest(format=target.format.name, schema=target.schema, shards=tuple(shards))
    return Corpus(target.folder, manifest, target.format, cache_bytes=0)


def digest_rows(corpus: Corpus, start: int = 0, stop: int | None = None) -> Leaves:
    """The digest leaves of rows start .. stop; ``start`` is a multiple of 1,024."""
    digester = Digester(corpus.schema.fields)
    for batch in corpus.batches(start, stop):
        digester.update(batch)
    return digester.finish()


def plan_rows(corpus: Corpus, shard_bytes: int, itemsize: int) -> Iterator[range]:
    """Cut a corpus into runs of rows that each make about one shard, at multiples of 1,024 rows.

    Depends on the rows and the numbers given only, not on how they are stored. Reads indexes, and where there are extra
    fields the first 1,024 rows, to see how large those are.
    """
    per_token, per_row = _field_bytes(corpus)
    return cut_rows(corpus, shard_bytes, itemsize + per_token, per_row)


def cut_rows(corpus: Corpus, limit: float, per_token: float, per_row: float) -> Iterator[range]:
    """Cut a corpus at multiples of 1,024 rows into runs of at most ``limit``, counted per token and per row.

    A run of 1,024 rows that alone passes the limit stands by itself.
    """
    start, size = 0, 0.0
    for first in range(0, len(corpus), _PLAN_ROWS):
        lengths = corpus.row_lengths(first, min(first + _PLAN_ROWS, len(corpus)))
        blocks = np.add.reduceat(lengths * per_token + per_row, np.arange(0, len(lengths), DIGEST_BLOCK_ROWS))
        for i, block in enumerate(blocks.tolist()):
            row = first + i * DIGEST_BLOCK_ROWS
            if size and size + block > limit:
                yield range(start, row)
                start, size = row, 0.0
            size += block
    if start < len(corpus):
        yield range(start, len(corpus))


def digest_corpus(corpus: Corpus, workers: Workers) -> Digests:
    """Read every row of a corpus and digest it, in parallel where the first part shows that workers are worth it.

    How long that takes is a matter of the format, a hundred times as long for lines of text as for a map.
    """
    tasks = list(plan_rows(corpus, 64 << 20, np.dtype(corpus.schema.token_dtype).itemsize))
    begun = time.monotonic()
    leaves = [_digest_task(corpus, tasks.pop(0)) if tasks else digest_rows(corpus)]
    if (time.monotonic() - begun) * len(tasks) < _WORKER_SECONDS:
        workers = Workers()
    others = dict(workers.run(_digest_task, corpus, tasks))
    return combine(leaves + [others[i] for i in range(len(tasks))])


def _digest_task(corpus: Corpus, rows: range) -> Leaves:
    return digest_rows(corpus, rows.start, rows.stop)


def collect(
    done: Mapping[int, TaskOutput],
    results: Iterable[tuple[int, TaskOutput]],
    unit: str,
    total: int,
    on_progress: OnProgress | None,
) -> list[TaskOutput]:
    """Those that were done and all results, in the order of the tasks, telling the progress as they come."""
    begun = time.monotonic()
    found = dict(done)
    rows, tokens = sum(o.num_rows for o in done.values()), sum(o.num_tokens for o in done.values())
    size = sum(o.num_bytes for o in done.values())
    before = {"tokens_before": tokens, "bytes_before": size}
    for number, output in results:
        found[number] = output
        rows, tokens, size = rows + output.num_rows, tokens + output.num_tokens, size + output.num_bytes
        if on_progress:
            on_progress(
                Progress(
                    rows=rows,
                    tokens=tokens,
                    bytes=size,
                    unit=unit,
                    total=total,
                    seconds=time.monotonic() - begun,
                    **before,
                )
            )
    return [found[i] for i in sorted(found)]


def digests_of(target: Target, outputs: Sequence[TaskOutput], workers: Workers) -> Digests:
    """The digests of what all tasks wrote: from their leaves, or read back where a task ends inside a digest block."""
    full = [o for o in outputs if o.num_rows]
    if all(o.num_rows % DIGEST_BLOCK_ROWS == 0 for o in full[:-1]):
        return combine([o.leaves for o in outputs] or [Digester(target.schema.fields).finish()])
    return digest_corpus(read_back(target, [s for o in outputs for s in o.shards]), workers)


def total_counts(outputs: Iterable[TaskOutput]) -> dict[str, int]:
    """The counts of all tasks, summed by name."""
    totals: dict[str, int] = {}
    for output in outputs:
        for name, count in output.counts.items():
            totals[name] = totals.get(name, 0) + count
    return dict(sorted(totals.items()))


def provenance(job: str, options: Mapping[str, Any], source: Corpus | None = None, **more: Any) -> dict[str, Any]:
    """What a manifest says of its making: the job, its options, and what it was made from."""
    said: dict[str, Any] = {"job": job, "options": dict(options), **more}
    if source is not None:
        said["source"] = {
            "format": source.format,
            "id": source.digest or source.structural_id,
            "provenance": dict(source.manifest.provenance),
        }
    return said


def inputs_of(source: Corpus, read: Mapping[str, Any] | None) -> Any:
    """What tells whether a corpus, or how it is read, has changed, as JSON values.

    Not its digest alone: it may be known on one machine and not on another, and stays when a file is changed in place.
    """
    manifest = source.manifest
    files = [file for shard in manifest.shards for file in shard.files]
    states = source.folder.states([file.name for file in files])
    state = [[file.name, file.bytes, now] for file, now in zip(files, states, strict=True)]
    ours = manifest.provenance.get("job") not in (None, INDEX_JOB)
    digests = [manifest.digests.tokens, dict(manifest.digests.fields)] if ours and manifest.digests else None
    return [digests, {name: str(value) for name, value in (read or {}).items()}, dict(manifest.meta), state]


def _field_bytes(corpus: Corpus) -> tuple[float, float]:
    """Bytes of extra fields for each token and for each row, judged by the first rows."""
    if not corpus.schema.fields:
        return 0.0, _ROW_BYTES
    rows = tokens = lists = others = 0
    for batch in corpus.batches(0, DIGEST_BLOCK_ROWS):
        rows, tokens = rows + len(batch), tokens + batch.num_tokens
        lists += sum(c.nbytes for c in batch.fields.values() if c.type.is_list)
        others += sum(c.nbytes for c in batch.fields.values() if not c.type.is_list)
    return lists / max(1, tokens), _ROW_BYTES + others / max(1, rows)
