"""What benchmarks read: tokens with the frequencies of natural text, in rows of one length or in documents."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tokenyard

SEQ_LEN = 2048
ROWS = 24_576
SHARDS = 24
VOCAB_SIZE = 50_257
DOCUMENT_MEAN = 800

Tokens = NDArray[np.uint16]


def zipf_rows(num_rows: int, seq_len: int = SEQ_LEN, seed: int = 0) -> Tokens:
    """uint16[num_rows, seq_len], ids distributed by Zipf's law."""
    rng = np.random.default_rng(seed)
    return (rng.zipf(1.2, (num_rows, seq_len)) % VOCAB_SIZE).astype(np.uint16)


def document_lengths(num_tokens: int, mean: float = DOCUMENT_MEAN, seed: int = 0) -> NDArray[np.int64]:
    """int64[documents] that sum to ``num_tokens``, log-normal with sigma 1, as lengths of web pages are."""
    rng = np.random.default_rng(seed)
    drawn = rng.lognormal(np.log(mean) - 0.5, 1.0, 2 * int(num_tokens / mean) + 64).astype(np.int64) + 1
    ends = np.cumsum(drawn)
    kept = drawn[: int(np.searchsorted(ends, num_tokens))]
    return np.append(kept, num_tokens - kept.sum())


def write(path: Path, format: str, rows: Iterable[Tokens], shard_bytes: int, **options: Any) -> tokenyard.Corpus:
    """A corpus of these rows, opened."""
    schema = tokenyard.Schema(token_dtype="uint16", vocab_size=VOCAB_SIZE)
    with tokenyard.CorpusWriter(path, format=format, schema=schema, shard_bytes=shard_bytes, **options) as writer:
        for row in rows:
            writer.write(row)
    return tokenyard.open_corpus(path)


def write_rows(path: Path, format: str, rows: Tokens, num_shards: int = SHARDS, **options: Any) -> tokenyard.Corpus:
    """A corpus of rows of one length, in about ``num_shards`` shards, or some more."""
    return write(path, format, rows, max(1, rows.nbytes // num_shards), **options)


def write_documents(
    path: Path, format: str, tokens: Tokens, lengths: NDArray[np.int64], num_shards: int = SHARDS
) -> tokenyard.Corpus:
    """A corpus of documents of the given lengths, in about ``num_shards`` shards, or some more."""
    return write(path, format, np.split(tokens, np.cumsum(lengths)[:-1]), max(1, tokens.nbytes // num_shards))


def settings(path: Path, *, batch_size: int, sample: dict[str, Any], **loader: Any) -> dict[str, Any]:
    """What `build_dataloader` takes to shuffle a corpus by blocks, on one rank."""
    return {
        "data": {"path": str(path), "sample": sample},
        "order": {"global_batch_size": batch_size, "seed": 1, "shuffle": "block"},
        "loader": loader,
    }
