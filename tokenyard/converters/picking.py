"""A job that writes some rows of a corpus, in their order: what `filter` and `split` share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenyard.converters.convert import writable_dtype
from tokenyard.converters.job import READ_TOKENS, Target, TaskOutput, inputs_of, plan_rows, provenance, write_shards
from tokenyard.converters.row_sums import sum_of
from tokenyard.converters.run import Job
from tokenyard.converters.settings import JobSettings
from tokenyard.converters.sight import corpus_sights
from tokenyard.converters.source_check import check_source, digests_read
from tokenyard.converters.taking import take
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.digest import Digester
from tokenyard.formats.registry import get_format
from tokenyard.rows import RowBatch

#: Names of counts: the sums of the digests of rows that were kept, and of all others.
KEPT, LEFT = "kept", "left"


class Choice(Protocol):
    """Which rows are wanted; small, and can be pickled."""

    def keep(self, batch: RowBatch, first_row: int, counts: dict[str, int]) -> NDArray[np.bool_]:
        """bool[k]: whether each row of a batch, whose first is row ``first_row`` of the corpus, is wanted.

        May count what it likes by name.
        """


@dataclass(frozen=True, kw_only=True)
class PickSettings(JobSettings):
    """What all jobs that pick rows take."""

    format: str | None = None
    read: Mapping[str, Any] | None = None

    def open(self, src: str | os.PathLike[str] | Corpus) -> Corpus:
        """The corpus to pick from."""
        return src if isinstance(src, Corpus) else open_corpus(src, **dict(self.read or {}))


@dataclass(frozen=True, kw_only=True)
class _Picking:
    source: Corpus
    target: Target
    choice: Choice
    is_summed: bool


def plan_picks(
    kind: str,
    source: Corpus,
    choice: Choice,
    settings: PickSettings,
    said: Mapping[str, Any],
    *,
    share: float = 1.0,
    is_summed: bool = False,
) -> Job[range]:
    """The job that writes the rows of ``source`` that are wanted, in the source's format unless given.

    ``said``: what the manifest says of the choice. ``share``: of all rows, about so many are wanted; a task reads
    enough for about one shard. ``is_summed``: count the sums of the digests of rows that were kept, and of the others.
    """
    to = get_format(settings.format or source.format)
    options = to.options(settings.options)
    schema = replace(source.schema, token_dtype=writable_dtype(source.schema.token_dtype))
    schema.check_writable()
    read_bytes = int(options.shard_bytes / max(share, 1e-6))
    tasks = list(plan_rows(source, read_bytes, np.dtype(schema.token_dtype).itemsize))
    return Job(
        kind=kind,
        format=to,
        schema=schema,
        options=options,
        layout=source.layout,
        provenance=provenance(kind, {**options.model_dump(), **said}, source),
        inputs=lambda: inputs_of(source, settings.read),
        tasks=tasks,
        described=[[rows.start, rows.stop] for rows in tasks],
        shared=lambda target: _Picking(source=source, target=target, choice=choice, is_summed=is_summed),
        reads=corpus_sights(source),
        run=_pick_rows,
        unit="bytes",
        total=source.num_tokens * np.dtype(source.schema.token_dtype).itemsize,
        check=lambda _, outputs: check_source(source, digests_read(source, outputs)),
    )


def _pick_rows(job: _Picking, task: tuple[int, range]) -> TaskOutput:
    number, rows = task
    counts: dict[str, int] = {}
    read = Digester(job.source.schema.fields)

    def kept() -> Any:
        first = rows.start
        for batch in job.source.batches(rows.start, rows.stop, max_tokens=READ_TOKENS):
            read.update(batch)
            wanted = job.choice.keep(batch, first, counts)
            first += len(batch)
            picked = take(batch, np.flatnonzero(wanted))
            if job.is_summed:
                others = take(batch, np.flatnonzero(~wanted))
                _add(counts, sum_of([picked]).counts(KEPT), sum_of([others]).counts(LEFT))
            yield picked

    shards, leaves = write_shards(job.target, number, kept(), rows.start)
    lengths = job.source.row_lengths(rows.start, rows.stop)
    size = int(lengths.sum()) * np.dtype(job.source.schema.token_dtype).itemsize
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=size, counts=counts, read=read.finish())


def _add(counts: dict[str, int], *more: Mapping[str, int]) -> None:
    for found in more:
        for name, count in found.items():
            counts[name] = counts.get(name, 0) + count


def counted(outputs: Sequence[TaskOutput], source: Corpus) -> bool:
    """Whether all is known that tasks did; not so where a job was interrupted while it cleared up."""
    return sum(o.read.num_rows for o in outputs if o.read) == len(source)
