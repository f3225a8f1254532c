"""The encoding of Parquet's tokens: whichever makes them smaller, tried and not guessed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tokenyard import Schema, open_corpus
from tokenyard.corpus import CorpusWriter
from tokenyard.formats import parquet
from tokenyard.formats.parquet import token_encoding
from tokenyard.rows import RowBatch

CODECS = ["zstd", "lz4", "snappy"]


def drawn(dtype: str) -> np.ndarray[Any, Any]:
    """Ids as frequent as in text, in no order."""
    return (np.random.default_rng(0).zipf(1.2, 1 << 18) % 50257).astype(dtype)


def repeating(dtype: str) -> np.ndarray[Any, Any]:
    """Phrases that come again: pieces of 5 to 40 ids out of few."""
    rng = np.random.default_rng(0)
    phrases = [rng.integers(0, 50257, rng.integers(5, 40)) for _ in range(500)]
    return np.concatenate([phrases[i] for i in rng.integers(0, 500, 12_000)]).astype(dtype)


def write(path: Path, tokens: np.ndarray[Any, Any], **options: Any) -> tuple[int, set[str]]:
    """Bytes of the only shard, and the encodings of its tokens."""
    schema = Schema(token_dtype=tokens.dtype.name)
    offsets = np.append(np.arange(0, len(tokens), 2048), len(tokens)).astype(np.int64)
    with CorpusWriter(path, format="parquet", schema=schema, **options) as writer:
        writer.write_batch(RowBatch(tokens=tokens, offsets=offsets, fields={}))
    assert np.array_equal(np.concatenate([b.tokens for b in open_corpus(path).batches()]), tokens)
    file = path / "shard-00000.parquet"
    return file.stat().st_size, set(pq.ParquetFile(file).metadata.row_group(0).column(0).encodings)


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int64"])
@pytest.mark.parametrize("texts", [drawn, repeating])
def test_the_smaller_encoding_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: Any, dtype: str, compression: str
) -> None:
    tokens = texts(dtype)
    size, encodings = write(tmp_path / "chosen", tokens, compression=compression)
    forced = {}
    for encoding in ("PLAIN", "BYTE_STREAM_SPLIT"):
        monkeypatch.setattr(parquet, "choose_token_encoding", lambda *_, encoding=encoding: encoding)
        forced[encoding] = write(tmp_path / encoding, tokens, compression=compression)
    assert (size, encodings) == min(forced.values(), key=lambda made: made[0])


def test_code_and_shuffled_ids_want_different_ones() -> None:
    choose = token_encoding.choose_token_encoding
    assert choose(repeating("uint16"), "zstd", 1) == "PLAIN"
    assert choose(drawn("uint16"), "zstd", 1) == "BYTE_STREAM_SPLIT"


def test_few_tokens_are_split_without_a_trial() -> None:
    few = repeating("uint16")[: token_encoding._LEAST_TOKENS - 1]
    assert token_encoding.choose_token_encoding(few, "zstd", 1) == "BYTE_STREAM_SPLIT"
    assert token_encoding.choose_token_encoding(few[:0], "zstd", 1) == "BYTE_STREAM_SPLIT"
