"""Small corpora that tests of datasets read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard.corpus import Corpus, CorpusWriter, open_corpus
from tokenyard.manifest import Layout
from tokenyard.schema import Schema

#: Formats whose batches are compared.
FORMATS = ["npy", "mds", "webdataset", "parquet", "jsonl", "csv"]


def write_corpus(
    path: Path,
    rows: Sequence[Sequence[int]],
    *,
    format: str = "npy",
    layout: Layout | None = None,
    shard_bytes: int = 1 << 20,
    eos_token_id: int | None = None,
    vocab_size: int = 1 << 16,
    token_dtype: str = "uint16",
    tokenizer: str | None = None,
    **fields: tuple[str, Sequence[Any]],
) -> Corpus:
    """Write rows, with fields as (type, one value a row), and open what was written."""
    schema = Schema(
        token_dtype=token_dtype,
        vocab_size=vocab_size,
        tokenizer=tokenizer,
        eos_token_id=eos_token_id,
        fields={name: kind for name, (kind, _) in fields.items()},
    )
    with CorpusWriter(path, format=format, schema=schema, layout=layout, shard_bytes=shard_bytes) as writer:
        for i, row in enumerate(rows):
            writer.write(np.array(row, token_dtype), **{name: values[i] for name, (_, values) in fields.items()})
    return open_corpus(path)


def random_rows(seed: int, num_rows: int, longest: int) -> list[list[int]]:
    """Rows of 0 to `longest` random ids."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1 << 16, length).tolist() for length in rng.integers(0, longest + 1, num_rows)]
