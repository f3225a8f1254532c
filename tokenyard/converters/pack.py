"""Pack documents into rows of one length, keeping each row's document lengths so that boundaries survive.

``concat`` cuts the stream of all tokens every ``seq_len``; what is left at the end is dropped and counted. ``best_fit``
(best-fit-decreasing, https://arxiv.org/abs/2404.10830) splits only documents longer than a row, puts every piece where
it
fits best, and pads. Memory is bounded by a task, about one shard.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from tokenyard.converters.bins import best_fit_decreasing
from tokenyard.converters.convert import writable_dtype
from tokenyard.converters.executor import run_tasks
from tokenyard.converters.job import (
    OnProgress,
    Target,
    TaskOutput,
    collect,
    digests_of,
    plan_rows,
    provenance,
    total_counts,
    write_shards,
)
from tokenyard.corpus import Corpus, destination, open_corpus, publish_manifest
from tokenyard.digest import DIGEST_BLOCK_ROWS
from tokenyard.errors import ConfigError, SchemaError
from tokenyard.formats.registry import get_format
from tokenyard.manifest import Layout, Manifest
from tokenyard.rows import Array, Column, Offsets, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema

#: The field of a packed row that holds the lengths of its documents, in order.
LENGTHS_FIELD = "document_lengths"
_LENGTHS_TYPE = FieldType("uint32", is_list=True)

Strategy = Literal["concat", "best_fit"]


@dataclass(frozen=True, kw_only=True)
class PackReport:
    """What packing did. ``fill_ratio``: tokens of documents in all places of all rows."""

    source: str
    destination: str
    format: str
    strategy: str
    seq_len: int
    num_documents: int
    num_empty_documents: int
    num_rows: int
    num_tokens: int
    num_padding_tokens: int
    num_dropped_tokens: int
    num_split_documents: int
    fill_ratio: float
    digest: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _Packing:
    source: Corpus
    target: Target
    seq_len: int
    strategy: Strategy
    pad_token_id: int


def pack(
    src: str | os.PathLike[str] | Corpus,
    dst: str | os.PathLike[str],
    *,
    seq_len: int,
    strategy: Strategy = "concat",
    format: str | None = None,
    num_workers: int = 1,
    overwrite: bool = False,
    pad_token_id: int | None = None,
    drop_fields: Sequence[str] = (),
    read: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> PackReport:
    """Pack the documents of ``src`` into rows of ``seq_len`` tokens at ``dst``, in the source's format unless given.

    List fields of numbers as long as the tokens (such as a loss mask) are packed along; other fields belong to whole
    documents and must be named in ``drop_fields``. ``pad_token_id`` (``best_fit`` only) is the EOS id unless given,
    else 0.
    The rows and bytes written don't depend on ``num_workers``.

    Raises ConfigError, SchemaError (a field that can't be packed), DataError, DestinationExistsError, StorageError.
    """
    begun = time.monotonic()
    if seq_len < 1 or strategy not in ("concat", "best_fit"):
        raise ConfigError(
            f"pack takes seq_len from 1 on and strategy concat or best_fit, not {seq_len!r} and {strategy!r}"
        )
    source = src if isinstance(src, Corpus) else open_corpus(src, **dict(read or {}))
    to = get_format(format or source.format)
    writer_options = to.options(options)
    schema = _packed_schema(source, set(drop_fields))
    pad = _pad_token_id(schema, pad_token_id) if strategy == "best_fit" else None
    with destination(dst, {"job": "pack", "to": to.name}, overwrite=overwrite) as folder:
        tasks: list[tuple[int, range]] = list(
            enumerate(
                _plan_windows(source, schema, seq_len, writer_options.shard_bytes)
                if strategy == "concat"
                else plan_rows(source, writer_options.shard_bytes, np.dtype(schema.token_dtype).itemsize)
            )
        )
        target = Target(folder=folder, format=to, schema=schema, options=writer_options, num_tasks=len(tasks))
        job = _Packing(source=source, target=target, seq_len=seq_len, strategy=strategy, pad_token_id=pad or 0)
        run = _concat_task if strategy == "concat" else _best_fit_task
        outputs = collect(run_tasks(run, job, tasks, num_workers), "tokens", source.num_tokens, on_progress)
        said = {**writer_options.model_dump(), "seq_len": seq_len, "strategy": strategy, "pad_token_id": pad}
        manifest = Manifest(
            format=to.name,
            schema=schema,
            layout=Layout(kind="packed", seq_len=seq_len, lengths_field=LENGTHS_FIELD, pad_token_id=pad),
            shards=tuple(s for o in outputs for s in o.shards),
            digests=digests_of(target, outputs, num_workers),
            provenance=provenance("pack", said, source),
        )
        publish_manifest(folder, to, manifest)
    counts = total_counts(outputs)
    places = manifest.num_rows * seq_len
    padding = counts.get("padding", 0)
    empty, split = _document_counts(source, seq_len, strategy)
    assert manifest.digests is not None
    return PackReport(
        source=str(source.folder.path),
        destination=os.fspath(dst),
        format=to.name,
        strategy=strategy,
        seq_len=seq_len,
        num_documents=len(source),
        num_empty_documents=empty,
        num_rows=manifest.num_rows,
        num_tokens=places - padding,
        num_padding_tokens=padding,
        num_dropped_tokens=source.num_tokens - (places - padding),
        num_split_documents=split,
        fill_ratio=(places - padding) / places if places else 1.0,
        digest=manifest.digests.tokens,
        seconds=time.monotonic() - begun,
    )


def _packed_schema(source: Corpus, drop: set[str]) -> Schema:
    fields = dict(source.schema.fields)
    if unknown := sorted(drop - set(fields)):
        raise ConfigError(
            f"drop_fields names {', '.join(unknown)}, but {source!r} has {', '.join(sorted(fields)) or 'no fields'}"
        )
    kept = {n: t for n, t in fields.items() if n not in drop and n != LENGTHS_FIELD}
    stuck = sorted(n for n, t in kept.items() if not t.is_list or t.nullable)
    if stuck:
        raise SchemaError(
            f"{source.folder.path}: field {stuck[0]!r} ({kept[stuck[0]]}) belongs to a whole document, but a packed "
            f"row holds parts "
            f"of several; name it in drop_fields (--drop-field): {', '.join(stuck)}"
        )
    schema = replace(source.schema, token_dtype=writable_dtype(source.schema.token_dtype))
    return replace(schema, fields={**kept, LENGTHS_FIELD: _LENGTHS_TYPE})


def _pad_token_id(schema: Schema, given: int | None) -> int:
    pad = given if given is not None else schema.eos_token_id or 0
    if not 0 <= pad <= min(np.iinfo(schema.token_dtype).max, 2**32 - 1):
        raise ConfigError(f"pad_token_id {pad} does not fit the token dtype {schema.token_dtype}")
    return pad


def _plan_windows(source: Corpus, schema: Schema, seq_len: int, shard_bytes: int) -> Iterator[range]:
    """Runs of packed rows that each make about one shard, at multiples of 1,024 rows."""
    num_rows = source.num_tokens // seq_len
    item_bytes = np.dtype(schema.token_dtype).itemsize + sum(
        t.dtype.itemsize for n, t in schema.fields.items() if n != LENGTHS_FIELD
    )
    blocks = max(1, shard_bytes // (DIGEST_BLOCK_ROWS * (seq_len * item_bytes + 32)))
    step = blocks * DIGEST_BLOCK_ROWS
    for start in range(0, num_rows, step):
        yield range(start, min(start + step, num_rows))


def _concat_task(job: _Packing, task: tuple[int, range]) -> TaskOutput:
    number, rows = task
    batches = (_concat_rows(job, part) for part in _parts(rows, job.seq_len))
    shards, leaves = write_shards(job.target, number, batches)
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=sum(s.num_bytes for s in shards))


def _parts(rows: range, seq_len: int) -> Iterator[range]:
    """A task's rows in runs of about a million tokens."""
    step = max(1, (1 << 20) // seq_len)
    for start in range(rows.start, rows.stop, step):
        yield range(start, min(start + step, rows.stop))


def _concat_rows(job: _Packing, rows: range) -> RowBatch:
    source, seq_len = job.source, job.seq_len
    begin, end = rows.start * seq_len, rows.stop * seq_len
    first, skipped = source.row_at(begin)
    last, _ = source.row_at(end - 1)
    batch = RowBatch.concat(list(source.batches(first, last + 1)))
    taken = slice(skipped, skipped + end - begin)
    # Cut at each document's start and each row's start; the pieces between are what the rows hold.
    document_starts = batch.offsets[:-1] - skipped
    cuts = np.union1d(document_starts[document_starts > 0], np.arange(0, end - begin + 1, seq_len))
    pieces = np.diff(cuts)
    pieces_per_row = np.bincount(cuts[:-1] // seq_len, minlength=len(rows))
    fields = {LENGTHS_FIELD: _lengths_column(pieces, pieces_per_row)}
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * seq_len
    for name in job.target.schema.fields:
        if name != LENGTHS_FIELD:
            values = _per_token(source, name, batch)[taken]
            fields[name] = Column(type=batch.fields[name].type, values=values, offsets=offsets)
    return RowBatch(tokens=batch.tokens[taken], offsets=offsets, fields=fields)


def _best_fit_task(job: _Packing, task: tuple[int, range]) -> TaskOutput:
    number, rows = task
    batch = RowBatch.concat(list(job.source.batches(rows.start, rows.stop)))
    starts, lengths = _split_documents(batch, job.seq_len)
    bins = best_fit_decreasing(lengths, job.seq_len)
    padding = len(bins) * job.seq_len - int(lengths.sum())
    batches = (_best_fit_rows(job, batch, starts, lengths, part) for part in _chunks(bins, job.seq_len))
    shards, leaves = write_shards(job.target, number, batches)
    size = sum(s.num_bytes for s in shards)
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=size, counts={"padding": padding})


def _split_documents(batch: RowBatch, seq_len: int) -> tuple[Offsets, Offsets]:
    """Start and length of every piece of at most ``seq_len`` tokens; empty documents give none."""
    lengths = batch.lengths
    counts = -(-lengths // seq_len)
    document = np.repeat(np.arange(len(batch)), counts)
    within = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = batch.offsets[document] + within * seq_len
    return starts, np.minimum(lengths[document] - within * seq_len, seq_len)


def _chunks(bins: list[list[int]], seq_len: int) -> Iterator[list[list[int]]]:
    step = max(1, (1 << 20) // seq_len)
    for start in range(0, len(bins), step):
        yield bins[start : start + step]


def _best_fit_rows(
    job: _Packing, batch: RowBatch, starts: Offsets, lengths: Offsets, bins: list[list[int]]
) -> RowBatch:
    seq_len = job.seq_len
    order = np.array([piece for bin in bins for piece in bin], np.int64)
    pieces_per_row = np.array([len(bin) for bin in bins], np.int64)
    pieces, begins = lengths[order], starts[order]
    first = offsets_of(pieces_per_row)[:-1]
    filled = np.add.reduceat(pieces, first)
    row = np.repeat(np.arange(len(bins)), pieces_per_row)
    inside = offsets_of(pieces)[:-1] - np.repeat(offsets_of(filled)[:-1], pieces_per_row)
    places = row * seq_len + inside
    total = len(bins) * seq_len
    offsets = np.arange(len(bins) + 1, dtype=np.int64) * seq_len
    fields = {LENGTHS_FIELD: _lengths_column(pieces, pieces_per_row)}
    for name in job.target.schema.fields:
        if name != LENGTHS_FIELD:
            values = _scatter(_per_token(job.source, name, batch), begins, pieces, places, total, 0)
            fields[name] = Column(type=batch.fields[name].type, values=values, offsets=offsets)
    return RowBatch(
        tokens=_scatter(batch.tokens, begins, pieces, places, total, job.pad_token_id), offsets=offsets, fields=fields
    )


def _scatter(items: Array, begins: Offsets, lengths: Offsets, places: Offsets, total: int, fill: int) -> Array:
    """An array of ``total`` items, with run i of ``lengths[i]`` items from ``begins[i]`` put at ``places[i]``."""
    out = np.full(total, fill, items.dtype)
    for begin, length, place in zip(begins.tolist(), lengths.tolist(), places.tolist(), strict=True):
        out[place : place + length] = items[begin : begin + length]
    return out


def _per_token(source: Corpus, name: str, batch: RowBatch) -> Array:
    column = batch.fields[name]
    if column.offsets is None or not np.array_equal(column.offsets, batch.offsets):
        raise SchemaError(
            f"{source.folder.path}: field {name!r} is not as long as the tokens in every row, so it can't be packed "
            f"along; name it "
            "in drop_fields (--drop-field)"
        )
    return column.values


def _lengths_column(pieces: Offsets, pieces_per_row: Offsets) -> Column:
    return Column(type=_LENGTHS_TYPE, values=pieces.astype(np.uint32), offsets=offsets_of(pieces_per_row))


def _document_counts(source: Corpus, seq_len: int, strategy: Strategy) -> tuple[int, int]:
    """How many documents are empty, and how many lie in more than one row."""
    empty = split = position = 0
    for first in range(0, len(source), 1 << 20):
        lengths = source.row_lengths(first, min(first + (1 << 20), len(source)))
        empty += int((lengths == 0).sum())
        if strategy == "best_fit":
            split += int((lengths > seq_len).sum())
        else:
            ends = position + np.cumsum(lengths)
            begins = ends - lengths
            split += int(((lengths > 0) & (begins // seq_len != (ends - 1) // seq_len)).sum())
            position = int(ends[-1])
    return empty, split
