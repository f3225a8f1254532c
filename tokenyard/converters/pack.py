"""Pack documents into rows of one length, keeping each row's document lengths so that boundaries survive.

``concat`` cuts the stream of all tokens every ``seq_len``; what is left at the end is dropped and counted.
``best_fit`` (best-fit-decreasing, https://arxiv.org/abs/2404.10830) splits only documents longer than a row, puts
every piece where it fits best, and pads. Memory is bounded by a task, about one shard.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tokenyard.converters.convert import writable_dtype
from tokenyard.converters.job import OnProgress, cut_rows, inputs_of, provenance
from tokenyard.converters.packed_rows import (
    LENGTHS_FIELD,
    LENGTHS_TYPE,
    Packing,
    Strategy,
    best_fit_task,
    concat_task,
)
from tokenyard.converters.run import Job, run_job
from tokenyard.converters.settings import JobSettings
from tokenyard.converters.sight import corpus_sights
from tokenyard.converters.workers import ExecutorName
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.digest import DIGEST_BLOCK_ROWS
from tokenyard.errors import ConfigError, SchemaError
from tokenyard.formats.registry import get_format
from tokenyard.manifest import Layout
from tokenyard.schema import Schema

#: Documents are packed by best_fit in runs of about so many tokens, each by itself.
_BEST_FIT_TOKENS = 32 << 20
_MAX_SEQ_LEN = 1 << 24


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
class PackSettings(JobSettings):
    """What ``pack`` is asked for; see there. Raises ConfigError."""

    seq_len: int
    strategy: Strategy = "concat"
    format: str | None = None
    pad_token_id: int | None = None
    drop_fields: Sequence[str] = ()
    read: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.seq_len <= _MAX_SEQ_LEN:
            raise ConfigError(f"seq_len: expected 1 up to {_MAX_SEQ_LEN:,}; found {self.seq_len}")
        if self.strategy not in ("concat", "best_fit"):
            raise ConfigError(f"strategy: expected concat or best_fit; found {self.strategy!r}")


def pack(
    src: str | os.PathLike[str] | Corpus,
    dst: str | os.PathLike[str],
    *,
    seq_len: int,
    strategy: Strategy = "concat",
    format: str | None = None,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    finish: bool = False,
    pad_token_id: int | None = None,
    drop_fields: Sequence[str] = (),
    read: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> PackReport:
    """Pack the documents of ``src`` into rows of ``seq_len`` tokens at ``dst``, in the source's format unless given.

    List fields of numbers as long as the tokens (such as a loss mask) are packed along; other fields belong to whole
    documents and must be named in ``drop_fields``. ``pad_token_id`` (``best_fit`` only) is the EOS id unless given,
    else 0. The rows and bytes written don't depend on ``num_workers`` and ``executor``. A job that was interrupted
    goes on, ``finish`` publishes what parts have done, and ``executor`` and ``address`` are as in ``convert``.

    Raises ConfigError, SchemaError (a field that can't be packed), DataError, DestinationExistsError, StorageError.
    """
    begun = time.monotonic()
    settings = PackSettings(
        seq_len=seq_len,
        strategy=strategy,
        format=format,
        pad_token_id=pad_token_id,
        drop_fields=drop_fields,
        read=read,
        options=options,
    )
    source, job = _planned(src, settings)
    manifest, _ = run_job(
        job,
        dst,
        num_workers=num_workers,
        executor=executor,
        address=address,
        overwrite=overwrite,
        finish=finish,
        on_progress=on_progress,
    )
    places = manifest.num_rows * seq_len
    # best_fit drops nothing, and concat pads nothing.
    padding = places - source.num_tokens if strategy == "best_fit" else 0
    empty, split = _document_counts(source, seq_len, strategy)
    assert manifest.digests is not None
    return PackReport(
        source=str(source.path),
        destination=os.fspath(dst),
        format=manifest.format,
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


def plan_pack(src: str | os.PathLike[str] | Corpus, **settings: Any) -> Job[range]:
    """The job that ``pack`` does with these settings."""
    return _planned(src, PackSettings.of(**settings))[1]


def _planned(src: str | os.PathLike[str] | Corpus, settings: PackSettings) -> tuple[Corpus, Job[range]]:
    seq_len, strategy = settings.seq_len, settings.strategy
    source = src if isinstance(src, Corpus) else open_corpus(src, **dict(settings.read or {}))
    _check_documents(source)
    if settings.pad_token_id is not None and strategy == "concat":
        raise ConfigError("pad_token_id fills rows of best_fit; concat leaves no gaps, leave pad_token_id out")
    to = get_format(settings.format or source.format)
    writer_options = to.options(settings.options)
    schema = _packed_schema(source, set(settings.drop_fields))
    pad = _pad_token_id(schema, settings.pad_token_id) if strategy == "best_fit" else None
    tasks = list(
        _plan_windows(source, schema, seq_len, writer_options.shard_bytes)
        if strategy == "concat"
        else cut_rows(source, _BEST_FIT_TOKENS, per_token=1, per_row=1)
    )
    said = {**writer_options.model_dump(), "seq_len": seq_len, "strategy": strategy, "pad_token_id": pad}
    return source, Job(
        kind="pack",
        format=to,
        schema=schema,
        options=writer_options,
        layout=Layout(kind="packed", seq_len=seq_len, lengths_field=LENGTHS_FIELD, pad_token_id=pad),
        provenance=provenance("pack", said, source),
        inputs=lambda: inputs_of(source, settings.read),
        tasks=tasks,
        described=[[rows.start, rows.stop] for rows in tasks],
        shared=lambda target: Packing(source=source, target=target, seq_len=seq_len, pad_token_id=pad or 0),
        run=concat_task if strategy == "concat" else best_fit_task,
        reads=corpus_sights(source),
        unit="tokens",
        total=source.num_tokens,
    )


def _check_documents(source: Corpus) -> None:
    if source.layout.kind == "packed":
        raise ConfigError(
            f"{source.path}: its rows are packed already (seq_len {source.layout.seq_len}), where documents "
            "lie in parts; pack the corpus of documents that it was made from"
        )
    if LENGTHS_FIELD in source.schema.fields:
        raise SchemaError(
            f"{source.path}: it has a field {LENGTHS_FIELD!r}, the name that packing gives to the lengths it "
            "keeps; convert it under another name first"
        )


def _packed_schema(source: Corpus, drop: set[str]) -> Schema:
    fields = dict(source.schema.fields)
    if unknown := sorted(drop - set(fields)):
        raise ConfigError(
            f"drop_fields names {', '.join(unknown)}, but {source!r} has {', '.join(sorted(fields)) or 'no fields'}"
        )
    kept = {n: t for n, t in fields.items() if n not in drop}
    stuck = sorted(n for n, t in kept.items() if not t.is_list or t.nullable)
    if stuck:
        raise SchemaError(
            f"{source.path}: field {stuck[0]!r} ({kept[stuck[0]]}) belongs to a whole document, but a packed "
            f"row holds parts of several; name it in drop_fields (--drop-field): {', '.join(stuck)}"
        )
    schema = replace(source.schema, token_dtype=writable_dtype(source.schema.token_dtype))
    return replace(schema, fields={**kept, LENGTHS_FIELD: LENGTHS_TYPE})


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
