"""The rows that are measured: all of a small corpus, an evenly spread sample of a large one, or rows that are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard.bench.settings import BenchSettings
from tokenyard.converters.convert import writable_dtype
from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.errors import ConfigError, VerificationError
from tokenyard.manifest import Layout
from tokenyard.rows import RowBatch, offsets_of
from tokenyard.schema import Schema

#: Stretches of neighbouring rows that a sample is made of.
STRETCHES = 64
#: What a source that was made is called.
MADE = "made ids, as frequent as in text (Zipf)"
_MADE_VOCAB = 50257
_MEAN_DOCUMENT = 800
_MADE_BATCH_TOKENS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The rows that every format is written from, kept as a corpus of npy at ``path``.

    ``raw_bytes`` are those of the tokens and of all fields. ``source`` says where the rows come from; ``of_tokens`` and
    ``of_bytes`` are the tokens of the whole source, and their bytes.
    """

    path: Path
    source: str
    source_format: str | None
    num_rows: int
    num_tokens: int
    raw_bytes: int
    token_dtype: str
    layout: str
    row_length: int | None
    mode: str
    of_rows: int
    of_tokens: int
    of_bytes: int
    digest: str
    is_whole: bool


def take_sample(settings: BenchSettings, path: Path) -> Sample:
    """Write the rows to measure as a corpus of npy at ``path``.

    Raises ConfigError when there is too little to measure; VerificationError when a whole corpus is read with another
    digest than its manifest promises; and what ``open_corpus`` raises.
    """
    if settings.source is None:
        return _make(settings, path)
    corpus = open_corpus(settings.source, **dict(settings.read))
    if not len(corpus) or not corpus.num_tokens:
        raise ConfigError(f"{corpus.path}: there is nothing to measure in {len(corpus)} rows without a token")
    schema = replace(corpus.schema, token_dtype=writable_dtype(corpus.schema.token_dtype))
    itemsize = np.dtype(schema.token_dtype).itemsize
    of_bytes = corpus.num_tokens * itemsize
    is_whole = of_bytes <= settings.sample_bytes
    batches = corpus.batches() if is_whole else _spread(corpus, settings.sample_bytes // itemsize)
    sample = _write(path, schema, corpus.layout, batches)
    if is_whole and corpus.digest is not None and sample.digest != corpus.digest:
        raise VerificationError(
            f"{corpus.path}: its rows have the digest {sample.digest}, its manifest promises {corpus.digest}; "
            "run tokenyard verify on it"
        )
    return replace(
        sample,
        source=str(settings.source),
        source_format=corpus.format,
        of_rows=len(corpus),
        of_tokens=corpus.num_tokens,
        of_bytes=of_bytes,
        is_whole=is_whole,
    )


def _spread(corpus: Corpus, num_tokens: int) -> Iterator[RowBatch]:
    """Stretches of rows, evenly spread, of about ``num_tokens`` in all, never more unless a single row has more."""
    stretches = min(STRETCHES, len(corpus))
    starts = [len(corpus) * i // stretches for i in range(stretches)]
    left = num_tokens
    for i, (start, stop) in enumerate(zip(starts, [*starts[1:], len(corpus)], strict=True)):
        room = left // (stretches - i)
        for batch in corpus.batches(start, stop):
            fitting = max(0, int(np.searchsorted(batch.offsets, room, side="right")) - 1)
            taken = max(fitting, 1) if left == num_tokens else fitting
            if taken:
                yield batch.slice(0, taken)
                room -= int(batch.offsets[taken])
                left -= int(batch.offsets[taken])
            if taken < len(batch):
                break


def _make(settings: BenchSettings, path: Path) -> Sample:
    """Rows of ids with the frequencies of natural text, the same for the same settings."""
    rng = np.random.default_rng(settings.seed)
    schema = Schema(token_dtype="uint16", vocab_size=_MADE_VOCAB, eos_token_id=_MADE_VOCAB - 1)
    layout = Layout() if settings.made_documents else Layout(kind="packed", seq_len=settings.seq_len)
    num_rows = settings.made_tokens // settings.seq_len
    if settings.made_documents:
        lengths = np.maximum(1, rng.lognormal(np.log(_MEAN_DOCUMENT) - 0.5, 1.0, settings.made_tokens // 100 + 1))
        ends = np.cumsum(lengths.astype(np.int64))
        num_rows = int(np.searchsorted(ends, settings.made_tokens)) + 1
        row_lengths = np.diff(np.concatenate([[0], np.minimum(ends[:num_rows], settings.made_tokens)]))
    elif num_rows:
        row_lengths = np.full(num_rows, settings.seq_len)
    else:
        raise ConfigError(f"make: {settings.made_tokens} tokens fill no row of {settings.seq_len}; make more")
    sample = _write(path, schema, layout, _made_batches(rng, row_lengths))
    return replace(sample, source=MADE)


def _made_batches(rng: np.random.Generator, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[RowBatch]:
    # The law of Zipf and Mandelbrot: the share of the id at a rank falls as 1 / (rank + 2.7).
    until = np.cumsum(1 / (np.arange(_MADE_VOCAB) + 2.7))
    offsets = offsets_of(lengths)
    start = 0
    while start < len(lengths):
        stop = int(np.searchsorted(offsets, offsets[start] + _MADE_BATCH_TOKENS, side="right")) - 1
        stop = min(max(stop, start + 1), len(lengths))
        # Scattered over the vocabulary, as a tokenizer's frequent ids are.
        ranks = np.searchsorted(until, rng.random(int(offsets[stop] - offsets[start])) * until[-1], side="right")
        tokens = (ranks * 40503 % _MADE_VOCAB).astype(np.uint16)
        yield RowBatch(tokens=tokens, offsets=offsets[start : stop + 1] - offsets[start])
        start = stop


def _write(path: Path, schema: Schema, layout: Layout, batches: Iterator[RowBatch]) -> Sample:
    raw_bytes = 0
    with CorpusWriter(path, format="npy", schema=schema, layout=layout) as writer:
        for batch in batches:
            batch = batch.cast(schema.token_dtype)
            raw_bytes += batch.nbytes
            writer.write_batch(batch)
    manifest = writer.close()
    lengths = open_corpus(path).row_lengths()
    same = bool(len(lengths)) and int(lengths.min()) == int(lengths.max())
    assert manifest.digests is not None
    return Sample(
        path=path,
        source="",
        source_format=None,
        num_rows=manifest.num_rows,
        num_tokens=manifest.num_tokens,
        raw_bytes=raw_bytes,
        token_dtype=schema.token_dtype,
        layout=layout.kind,
        row_length=int(lengths[0]) if same else None,
        mode="rows" if layout.kind == "packed" else "concat",
        of_rows=manifest.num_rows,
        of_tokens=manifest.num_tokens,
        of_bytes=manifest.num_tokens * np.dtype(schema.token_dtype).itemsize,
        digest=manifest.digests.tokens,
        is_whole=True,
    )
