"""Corpora written once and committed: what lies on somebody's disk must decode for ever.

JSONL and CSV must also be written with the same bytes for ever. Parquet's bytes change with pyarrow, its rows don't.
"""

import math
from pathlib import Path

import numpy as np
import pytest

import tokenyard
from tokenyard.digest import digest_of
from tokenyard.schema import Schema

GOLDEN = Path(__file__).parent.parent / "golden"
SCHEMA = Schema(
    token_dtype="uint16",
    vocab_size=65536,
    fields={"mask": "uint8[]", "n": "int64?", "raw": "bytes", "source": "string?", "x": "float64"},
)
TOKENS = [[1, 2], [], [65535]]
MASKS = [[1, 0], [], [1]]
NS = [-(2**63), None, 2**63 - 1]
RAWS = [b"\0\xff", b"", b"abc"]
SOURCES = ['say "hi",\r\n', None, ""]
XS = [0.1, math.inf, math.nan]


def write(path: Path, format: str) -> None:
    with tokenyard.CorpusWriter(path, format=format, schema=SCHEMA) as w:
        for tokens, mask, n, raw, source, x in zip(TOKENS, MASKS, NS, RAWS, SOURCES, XS, strict=True):
            w.write(tokens, mask=mask, n=n, raw=raw, source=source, x=x)


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_a_golden_corpus_decodes(format: str) -> None:
    corpus = tokenyard.open_corpus(GOLDEN / format)
    found = [corpus.row(i) for i in range(3)]
    assert [r["tokens"].tolist() for r in found] == TOKENS
    assert [r["mask"].tolist() for r in found] == MASKS
    assert [r["n"] for r in found] == NS
    assert [r["raw"] for r in found] == RAWS
    assert [r["source"] for r in found] == SOURCES
    assert repr([r["x"] for r in found]) == repr(XS)
    assert corpus.gather_rows(np.array([2, 0]))[0].tolist() == [65535, 1, 2]
    assert corpus.manifest.digests is not None
    assert not digest_of(corpus.batches(), SCHEMA.fields).differences(corpus.manifest.digests)


def test_golden_corpora_have_one_digest() -> None:
    digests = [tokenyard.open_corpus(GOLDEN / f).manifest.digests for f in ("parquet", "jsonl", "csv")]
    assert digests[0] is not None
    assert digests[0] == digests[1] == digests[2]
    assert digests[0].tokens == "ty1:f34a4ccec7e5e974c495ec4f433486c8a7974c1de635d70ddd55c3e337033a24"


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_the_same_bytes_are_written_for_ever(tmp_path: Path, format: str) -> None:
    write(tmp_path / "c", format)
    name = f"shard-00000.{format}"
    assert (tmp_path / "c" / name).read_bytes() == (GOLDEN / format / name).read_bytes()
