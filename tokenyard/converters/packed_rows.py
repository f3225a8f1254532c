"""The rows that packing makes: pieces of documents laid one behind the other, and how long each piece is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tokenyard.converters.bins import best_fit_decreasing
from tokenyard.converters.job import Target, TaskOutput, write_shards
from tokenyard.corpus import Corpus
from tokenyard.errors import DataError, SchemaError
from tokenyard.rows import Array, Column, Offsets, RowBatch, cast_tokens, offsets_of
from tokenyard.schema import FieldType

#: The field of a packed row that holds the lengths of its documents, in order.
LENGTHS_FIELD = "document_lengths"
LENGTHS_TYPE = FieldType("uint32", is_list=True)
#: Rows are made in batches of about so many tokens.
_BATCH_TOKENS = 1 << 20

Strategy = Literal["concat", "best_fit"]


@dataclass(frozen=True, kw_only=True)
class Packing:
    """What all tasks of a packing job share."""

    source: Corpus
    target: Target
    seq_len: int
    pad_token_id: int

    @property
    def packed_along(self) -> list[str]:
        """The list fields that are packed with the tokens."""
        return [name for name in self.target.schema.fields if name != LENGTHS_FIELD]


def concat_task(job: Packing, task: tuple[int, range]) -> TaskOutput:
    """Write some of the rows that the stream of all tokens is cut into."""
    number, rows = task
    step = max(1, _BATCH_TOKENS // job.seq_len)
    parts = (range(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step))
    return _written(job, number, (_concat_rows(job, part) for part in parts), rows.start)


def best_fit_task(job: Packing, task: tuple[int, range]) -> TaskOutput:
    """Pack the documents of some rows of the source, and write what they make."""
    number, rows = task
    batch = RowBatch.concat(list(job.source.batches(rows.start, rows.stop)))
    batch = batch.cast(job.target.schema.token_dtype, rows.start)
    starts, lengths = _split_documents(batch, job.seq_len)
    bins = best_fit_decreasing(lengths, job.seq_len)
    step = max(1, _BATCH_TOKENS // job.seq_len)
    parts = (bins[start : start + step] for start in range(0, len(bins), step))
    return _written(job, number, (_best_fit_rows(job, batch, starts, lengths, part) for part in parts), 0)


def _written(job: Packing, number: int, batches: Iterator[RowBatch], first_row: int) -> TaskOutput:
    shards, leaves = write_shards(job.target, number, batches, first_row)
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=sum(s.num_bytes for s in shards))


def _concat_rows(job: Packing, rows: range) -> RowBatch:
    source, seq_len = job.source, job.seq_len
    begin, end = rows.start * seq_len, rows.stop * seq_len
    first, skipped = source.row_at(begin)
    last, _ = source.row_at(end - 1)
    documents = np.clip(offsets_of(source.row_lengths(first, last + 1)) - skipped, 0, end - begin)
    # Cut at each document's start and each row's start; the pieces between are what the rows hold.
    cuts = np.union1d(documents, np.arange(0, end - begin + 1, seq_len))
    pieces_per_row = np.bincount(cuts[:-1] // seq_len, minlength=len(rows))
    fields = {LENGTHS_FIELD: _lengths_column(np.diff(cuts), pieces_per_row)}
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * seq_len
    for name in job.packed_along:
        values = _stream(source, name, begin, end)
        fields[name] = Column(type=job.target.schema.fields[name], values=values, offsets=offsets)
    tokens = cast_tokens(_stream(source, "tokens", begin, end), documents, job.target.schema.token_dtype, first)
    return RowBatch(tokens=tokens, offsets=offsets, fields=fields)


def _stream(source: Corpus, field: str, begin: int, end: int) -> Array:
    """The items that stand at positions begin .. end of the stream of all tokens."""
    try:
        items: Array = source.gather_windows(np.array([begin]), end - begin, field).reshape(-1)
    except DataError as e:
        if field == "tokens" or "not as long as" not in str(e):
            raise
        raise _not_per_token(source, field) from e
    return items


def _split_documents(batch: RowBatch, seq_len: int) -> tuple[Offsets, Offsets]:
    """Start and length of every piece of at most ``seq_len`` tokens; empty documents give none."""
    lengths = batch.lengths
    counts = -(-lengths // seq_len)
    document = np.repeat(np.arange(len(batch)), counts)
    within = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = batch.offsets[document] + within * seq_len
    return starts, np.minimum(lengths[document] - within * seq_len, seq_len)


def _best_fit_rows(job: Packing, batch: RowBatch, starts: Offsets, lengths: Offsets, bins: list[list[int]]) -> RowBatch:
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
    for name in job.packed_along:
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
        raise _not_per_token(source, name)
    return column.values


def _not_per_token(source: Corpus, field: str) -> SchemaError:
    return SchemaError(
        f"{source.path}: field {field!r} is not as long as the tokens in every row, so it can't be packed "
        "along; name it in drop_fields (--drop-field)"
    )


def _lengths_column(pieces: Offsets, pieces_per_row: Offsets) -> Column:
    return Column(type=LENGTHS_TYPE, values=pieces.astype(np.uint32), offsets=offsets_of(pieces_per_row))
