"""Convert a corpus from any format to any other, and prove by digest that nothing changed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tokenyard.converters.job import (
    READ_TOKENS,
    OnProgress,
    Target,
    TaskOutput,
    digest_corpus,
    inputs_of,
    plan_rows,
    provenance,
    total_counts,
    write_shards,
)
from tokenyard.converters.row_sums import RowSum, sum_of_corpus
from tokenyard.converters.run import Job, run_job
from tokenyard.converters.settings import JobSettings
from tokenyard.converters.shuffle import WRITTEN, plan_shuffle
from tokenyard.converters.sight import corpus_sights
from tokenyard.converters.source_check import check_source, digests_read
from tokenyard.converters.workers import ExecutorName, Workers
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.formats.registry import get_format
from tokenyard.schema import TOKEN_DTYPES


@dataclass(frozen=True, kw_only=True)
class ConvertReport:
    """What a conversion did.

    ``source_digest`` is of the rows as they were read, ``digest`` of what was written, read back; they are equal,
    unless rows were shuffled. Then ``rows_digest``, which doesn't depend on the order of rows, is the same of both.
    """

    source: str
    destination: str
    source_format: str
    format: str
    num_rows: int
    num_tokens: int
    num_shards: int
    num_bytes: int
    source_digest: str
    digest: str
    field_digests: Mapping[str, str]
    seconds: float
    shuffle: int | None = None
    rows_digest: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(JobSettings):
    """What ``convert`` is asked for; see there."""

    to: str
    token_dtype: str | None = None
    read: Mapping[str, Any] | None = None
    shuffle: int | None = None


def convert(
    src: str | os.PathLike[str] | Corpus,
    dst: str | os.PathLike[str],
    *,
    to: str,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    finish: bool = False,
    token_dtype: str | None = None,
    read: Mapping[str, Any] | None = None,
    shuffle: int | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> ConvertReport:
    """Write the rows of ``src``, in order and with every field, as a corpus of format ``to`` at ``dst``.

    ``options`` are the writer's (``shard_bytes``, ``compression`` ...), ``read`` those of ``open_corpus`` for a
    source that others made. ``token_dtype`` is the source's unless given; narrowing is checked. The bytes written
    don't depend on ``num_workers``, nor on where tasks run: in processes of this machine, or with ``executor="ray"``
    in workers of the Ray cluster at ``address`` (see ``Workers``).

    ``shuffle``, a seed from 0 on: rows come in the order in which ``order: {shuffle: global}`` takes them in epoch 0
    with this seed. Two passes over the disk do it. Memory holds what a worker reads or writes at a time, a few times
    ``shard_bytes``; until the end, all rows lie in ``dst`` once more. That no row was lost, changed or doubled is
    proven by the sum of the digests of all rows, of what was read and of what reads back.

    A conversion that was interrupted goes on when it is run again, with the tasks that were not done. ``finish``: all
    tasks were done by parts (see ``run_part``), and else nothing is done.

    Raises VerificationError when the digest of what was written, read back, is not the source's; DataError,
    SchemaError, ConfigError, DestinationExistsError, StorageError. After an error nothing opens at ``dst``, but what
    was there before.
    """
    begun = time.monotonic()
    source, job = _planned(
        src,
        ConvertSettings(to=to, token_dtype=token_dtype, read=read, shuffle=shuffle, options=options),
    )
    manifest, outputs = run_job(
        job,
        dst,
        num_workers=num_workers,
        executor=executor,
        address=address,
        overwrite=overwrite,
        finish=finish,
        on_progress=on_progress,
    )
    assert manifest.digests is not None
    workers = Workers(num_workers=num_workers, executor=executor, address=address)
    return ConvertReport(
        source=str(source.path),
        destination=os.fspath(dst),
        source_format=source.format,
        format=to,
        num_rows=manifest.num_rows,
        num_tokens=manifest.num_tokens,
        num_shards=len(manifest.shards),
        num_bytes=manifest.num_bytes,
        # What was written is what was read: each task has held both to each other.
        source_digest=manifest.digests.tokens if shuffle is None else _digest_read(source, outputs, workers),
        digest=manifest.digests.tokens,
        field_digests=dict(manifest.digests.fields),
        seconds=time.monotonic() - begun,
        shuffle=shuffle,
        rows_digest=None if shuffle is None else str(_sum_written(source, outputs, workers)),
    )


def plan_convert(src: str | os.PathLike[str] | Corpus, **settings: Any) -> Job[range]:
    """The job that ``convert`` does with these settings."""
    return _planned(src, ConvertSettings.of(**settings))[1]


def _planned(src: str | os.PathLike[str] | Corpus, settings: ConvertSettings) -> tuple[Corpus, Job[range]]:
    source = src if isinstance(src, Corpus) else open_corpus(src, **dict(settings.read or {}))
    format = get_format(settings.to)
    writer_options = format.options(settings.options)
    schema = replace(source.schema, token_dtype=settings.token_dtype or writable_dtype(source.schema.token_dtype))
    schema.check_writable()
    tasks = list(plan_rows(source, writer_options.shard_bytes, np.dtype(schema.token_dtype).itemsize))
    said = {**writer_options.model_dump(), "token_dtype": schema.token_dtype}
    job = Job(
        kind="convert",
        format=format,
        schema=schema,
        options=writer_options,
        layout=source.layout,
        provenance=provenance("convert", said, source),
        inputs=lambda: inputs_of(source, settings.read),
        tasks=tasks,
        described=[[rows.start, rows.stop] for rows in tasks],
        shared=lambda target: (source, target),
        run=_convert_rows,
        reads=corpus_sights(source),
        unit="tokens",
        total=source.num_tokens,
        check=lambda digests, _: check_source(source, digests),
    )
    return source, job if settings.shuffle is None else plan_shuffle(job, source, settings.shuffle)


def _digest_read(source: Corpus, outputs: Sequence[TaskOutput], workers: Workers) -> str:
    """Of shuffled rows, as they were read."""
    if _are_all(source, outputs):
        return digests_read(source, outputs).tokens
    return digest_corpus(source, workers).tokens


def _sum_written(source: Corpus, outputs: Sequence[TaskOutput], workers: Workers) -> RowSum:
    """Of shuffled rows, which are those of the source."""
    found = RowSum.of_counts(total_counts(outputs), WRITTEN)
    return found if _are_all(source, outputs) else sum_of_corpus(source, workers)


def _are_all(source: Corpus, outputs: Sequence[TaskOutput]) -> bool:
    """Whether all is known that was done; not so where a job was interrupted while it cleared up."""
    return sum(o.num_rows for o in outputs) == 2 * len(source)


def writable_dtype(token_dtype: str) -> str:
    """The token dtype that a corpus read in ``token_dtype`` is written in."""
    if token_dtype in TOKEN_DTYPES:
        return token_dtype
    return "uint32" if token_dtype == "uint64" else "uint16"


def _convert_rows(shared: tuple[Corpus, Target], task: tuple[int, range]) -> TaskOutput:
    (source, target), (number, rows) = shared, task
    batches = source.batches(rows.start, rows.stop, max_tokens=READ_TOKENS)
    # ``write_shards`` digests each batch as it was read and compares with what reads back.
    shards, leaves = write_shards(target, number, batches, rows.start)
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=sum(s.num_bytes for s in shards))
