"""Bytes that were written once decode for ever, and raw shards are written as they were then."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.golden import CORPORA, DIGEST, FIELDS, GOLDEN, ROWS, without_cells, write
from tokenyard import open_corpus
from tokenyard.digest import digest_of


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("name", CORPORA)
def test_golden_corpora_decode_to_the_rows_they_were_made_of(name: str) -> None:
    corpus = open_corpus(GOLDEN / name)
    assert [{k: plain(v) for k, v in corpus.row(i).items()} for i in range(len(corpus))] == ROWS
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == FIELDS
    assert digest_of(corpus.batches()).tokens == corpus.digest == DIGEST


@pytest.mark.parametrize("name", CORPORA)
def test_golden_corpora_open_without_their_manifest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))
    for path in (GOLDEN / name).iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    corpus = open_corpus(tmp_path)
    assert [{k: plain(v) for k, v in corpus.row(i).items()} for i in range(len(corpus))] == ROWS


@pytest.mark.parametrize("name", [n for n in CORPORA if n.endswith("raw")])
def test_raw_shards_and_their_indexes_are_written_as_they_were(name: str, tmp_path: Path) -> None:
    """Compressed bytes may change with the library that compresses."""
    write(name, tmp_path / "c")
    made, golden = (
        {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != "manifest.json"}
        for root in (tmp_path / "c", GOLDEN / name)
    )
    assert len(golden) == 6 + (name == "mds/raw")
    assert without_cells(made) == golden
    assert made != golden
