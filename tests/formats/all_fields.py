"""Samples with a field of every kind, as mosaicml-streaming and webdataset can hold them too."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard import Corpus, CorpusWriter, Schema

FIELDS = {
    "aa": "string?",
    "bytes": "bytes",
    "flag": "bool",
    "half": "float16?",
    "mask": "uint8[]",
    "unsigned": "uint64",
    "weights": "float32[]?",
    "yes": "bool[]",
}


def make_samples(lengths: Sequence[int], token_dtype: str = "uint16") -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    max_id = min(np.iinfo(token_dtype).max, 2**32 - 1)
    return [
        {
            "tokens": rng.integers(0, max_id, n, dtype=token_dtype),
            "aa": None if i == 2 else "é" * i,
            "bytes": bytes([255, i]) * (i % 3),
            "flag": i % 2 == 0,
            "half": None if i in (0, len(lengths) - 1) else i / 2,
            "mask": rng.integers(0, 2, n).astype(np.uint8),
            "unsigned": 2**64 - 1 - i,
            "weights": None if i == 4 else np.arange(i, dtype=np.float32),
            "yes": np.arange(i) % 2 == 0,
        }
        for i, n in enumerate(lengths)
    ]


def write(
    path: Path,
    samples: Sequence[dict[str, Any]],
    fields: dict[str, str] | None = None,
    *,
    format: str,
    **options: Any,
) -> Path:
    schema = Schema(token_dtype=samples[0]["tokens"].dtype.name if samples else "uint16", fields=fields or {})
    with CorpusWriter(path, format=format, schema=schema, **options) as writer:
        for sample in samples:
            writer.write(sample["tokens"], **{n: v for n, v in sample.items() if n != "tokens"})
    return path


write_mds, write_webdataset = partial(write, format="mds"), partial(write, format="webdataset")


def assert_same(corpus: Corpus, samples: Sequence[dict[str, Any]]) -> None:
    assert len(corpus) == len(samples)
    for i, sample in enumerate(samples):
        np.testing.assert_array_equal(corpus[i], sample["tokens"])
        found = corpus.row(i)
        assert found.keys() == sample.keys()
        for name, value in sample.items():
            if value is None:
                assert found[name] is None
            else:
                np.testing.assert_array_equal(found[name], value)
                assert np.asarray(found[name]).dtype == np.asarray(value).dtype
