"""Merge corpora into one, in their order, from any formats; what they mean must be the same."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tokenyard.converters.convert import writable_dtype
from tokenyard.converters.job import (
    READ_TOKENS,
    OnProgress,
    Target,
    TaskOutput,
    inputs_of,
    plan_rows,
    provenance,
    write_shards,
)
from tokenyard.converters.run import Job, run_job
from tokenyard.converters.settings import JobSettings
from tokenyard.converters.sight import corpus_sights
from tokenyard.converters.source_check import check_source, digests_read
from tokenyard.converters.workers import ExecutorName
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.digest import Digester
from tokenyard.errors import ConfigError, SchemaError
from tokenyard.formats.registry import get_format
from tokenyard.manifest import Layout
from tokenyard.rows import Column, RowBatch
from tokenyard.schema import FieldType, Schema

Source = str | os.PathLike[str] | Corpus
#: What a schema says of where ids come from.
_SAID = ("vocab_size", "eos_token_id", "bos_token_id", "tokenizer")


@dataclass(frozen=True, kw_only=True)
class MergeReport:
    """What merging did: for each source its rows, tokens and digest as read; and the digest of all, read back.

    ``notes`` say what some sources don't tell, so that the result doesn't either.
    """

    destination: str
    format: str
    sources: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    num_rows: int
    num_tokens: int
    num_shards: int
    digest: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class MergeSettings(JobSettings):
    """What ``merge`` is asked for; see there."""

    format: str | None = None
    token_dtype: str | None = None
    read: Mapping[str, Any] | None = None


def merge(
    sources: Sequence[Source],
    dst: str | os.PathLike[str],
    *,
    format: str | None = None,
    token_dtype: str | None = None,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    finish: bool = False,
    read: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> MergeReport:
    """Write the rows of all ``sources``, one after another, to ``dst``, in the first one's format unless given.

    Tokens are as wide as the widest of the sources, unless ``token_dtype`` is given. The sources must have one layout,
    and may not say different things of their vocabulary, marks and tokenizer; what some don't say, the result doesn't
    say. Fields must have the same types; one that a source lacks is null there, if the others declare it nullable.
    ``read`` is how sources are read that others made. A job that was interrupted goes on, and ``finish`` publishes what
    parts have done, as in ``convert``.

    Raises SchemaError that says what differs, VerificationError (a source isn't what its manifest promises, or what was
    written read back differently), ConfigError, DataError, DestinationExistsError, StorageError.
    """
    begun = time.monotonic()
    settings = MergeSettings(format=format, token_dtype=token_dtype, read=read, options=options)
    opened = _open(sources, settings)
    manifest, _ = run_job(
        _planned(opened, settings),
        dst,
        num_workers=num_workers,
        executor=executor,
        address=address,
        overwrite=overwrite,
        finish=finish,
        on_progress=on_progress,
    )
    assert manifest.digests is not None
    return MergeReport(
        destination=os.fspath(dst),
        format=manifest.format,
        sources=[
            {"path": str(c.path), "format": c.format, "rows": len(c), "tokens": c.num_tokens, "digest": c.digest}
            for c in opened
        ],
        notes=_notes(opened),
        num_rows=manifest.num_rows,
        num_tokens=manifest.num_tokens,
        num_shards=len(manifest.shards),
        digest=manifest.digests.tokens,
        seconds=time.monotonic() - begun,
    )


def plan_merge(sources: Sequence[Source], **settings: Any) -> Job[tuple[int, range]]:
    """The job that ``merge`` does with these settings."""
    found = MergeSettings.of(**settings)
    return _planned(_open(sources, found), found)


def _open(sources: Sequence[Source], settings: MergeSettings) -> list[Corpus]:
    if isinstance(sources, str | os.PathLike | Corpus) or not sources:
        raise ConfigError(f"sources: expected a list of corpora; found {sources!r}")
    return [s if isinstance(s, Corpus) else open_corpus(s, **dict(settings.read or {})) for s in sources]


def _planned(sources: Sequence[Corpus], settings: MergeSettings) -> Job[tuple[int, range]]:
    to = get_format(settings.format or sources[0].format)
    options = to.options(settings.options)
    schema, layout = _schema(sources, settings.token_dtype), _layout(sources)
    itemsize = np.dtype(schema.token_dtype).itemsize
    # A task reads of one source alone, so that its digest can be held to what the source's manifest promises.
    tasks = [
        (number, rows)
        for number, source in enumerate(sources)
        for rows in plan_rows(source, options.shard_bytes, itemsize)
    ]
    said = {**options.model_dump(), "token_dtype": schema.token_dtype}
    made_from = [provenance("", {}, source)["source"] for source in sources]
    return Job(
        kind="merge",
        format=to,
        schema=schema,
        options=options,
        layout=layout,
        provenance=provenance("merge", said, sources=made_from),
        inputs=lambda: [inputs_of(source, settings.read) for source in sources],
        tasks=tasks,
        described=[[number, rows.start, rows.stop] for number, rows in tasks],
        shared=lambda target: (sources, target),
        reads=[sight for source in sources for sight in corpus_sights(source)],
        run=_merge_rows,
        unit="tokens",
        total=sum(source.num_tokens for source in sources),
        check=lambda _, outputs: _check(sources, tasks, outputs),
    )


def _merge_rows(shared: tuple[Sequence[Corpus], Target], task: tuple[int, tuple[int, range]]) -> TaskOutput:
    (sources, target), (number, (which, rows)) = shared, task
    source = sources[which]
    read = Digester(source.schema.fields)

    def batches() -> Any:
        for batch in source.batches(rows.start, rows.stop, max_tokens=READ_TOKENS):
            read.update(batch)
            yield replace(batch, fields=_all_fields(batch, target.schema.fields))

    shards, leaves = write_shards(target, number, batches(), rows.start)
    size = sum(s.num_bytes for s in shards)
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=size, read=read.finish())


def _check(sources: Sequence[Corpus], tasks: Sequence[tuple[int, range]], outputs: Sequence[TaskOutput]) -> None:
    for number, source in enumerate(sources):
        mine = [output for (which, _), output in zip(tasks, outputs, strict=True) if which == number]
        check_source(source, digests_read(source, mine))


def _all_fields(batch: RowBatch, types: Mapping[str, FieldType]) -> dict[str, Column]:
    """The fields of a batch as the result has them, nulls where it has none."""
    nulls = [None] * len(batch)
    return {
        name: replace(batch.fields[name], type=type) if name in batch.fields else Column.from_values(name, type, nulls)
        for name, type in types.items()
    }


def _schema(sources: Sequence[Corpus], token_dtype: str | None) -> Schema:
    """What holds for all rows. Raises SchemaError that says what differs."""
    said: dict[str, Any] = {}
    for name in _SAID:
        found = {getattr(source.schema, name): source for source in sources}
        if len(found.keys() - {None}) > 1:
            raise _differing(name, sources, [source.schema.to_dict()[name] for source in sources])
        said[name] = None if None in found else next(iter(found))
    dtypes = [writable_dtype(source.schema.token_dtype) for source in sources]
    widest = max(dtypes, key=lambda dtype: np.iinfo(dtype).max)
    schema = Schema(token_dtype=token_dtype or widest, fields=_fields(sources), **said)
    schema.check_writable()
    return schema


def _fields(sources: Sequence[Corpus]) -> dict[str, FieldType]:
    fields: dict[str, FieldType] = {}
    for name in sorted({name for source in sources for name in source.schema.fields}):
        types = [source.schema.fields.get(name) for source in sources]
        there = [type for type in types if type is not None]
        if len({(type.name, type.is_list) for type in there}) > 1:
            raise _differing(f"field {name!r}", sources, types)
        if None in types and not all(type.nullable for type in there):
            lacking = sources[types.index(None)].path
            raise SchemaError(
                f"{lacking}: it has no field {name!r}, which is never null in the other corpora ({there[0]}). Only "
                f"where they declare it '{there[0]}?' could it be null here"
            )
        fields[name] = replace(there[0], nullable=any(type.nullable for type in there))
    return fields


def _layout(sources: Sequence[Corpus]) -> Layout:
    if any(source.layout != sources[0].layout for source in sources):
        raise _differing("layout", sources, [source.layout for source in sources])
    return sources[0].layout


def _differing(what: str, sources: Sequence[Corpus], values: Sequence[Any]) -> SchemaError:
    told = "; ".join(f"{source.path}: {value}" for source, value in zip(sources, values, strict=True))
    return SchemaError(f"{what} differs, so these corpora can't be one: {told}")


def _notes(sources: Sequence[Corpus]) -> list[str]:
    return [
        f"{name}: {', '.join(silent)} do not say it, so the result does not either"
        for name in _SAID
        if (silent := [str(s.path) for s in sources if getattr(s.schema, name) is None]) and len(silent) < len(sources)
    ]
