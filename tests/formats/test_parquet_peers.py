"""Parquet judged by pyarrow, DuckDB, pandas and datasets: what we write they read, what they write we read."""

from pathlib import Path
from typing import Any

import pytest

import tokenyard
from tests.formats import all_types
from tests.peers import run_in_peers

SCRIPTS = Path(__file__).parent / "peer_scripts"


def write(path: Path, format: str, *, finite: bool = False, **options: Any) -> Path:
    with tokenyard.CorpusWriter(path, format=format, schema=all_types.schema(finite=finite), **options) as w:
        w.write_batch(all_types.rows(finite=finite))
    return path


@pytest.mark.parametrize("options", [{}, {"compression": "none"}, {"compression": "lz4"}, {"compression": "snappy"}])
def test_peers_read_every_field_by_the_folder_alone(tmp_path: Path, options: dict[str, Any]) -> None:
    corpus = write(tmp_path / "corpus", "parquet", shard_bytes=2_000, **options)
    assert len(list(corpus.glob("*.parquet"))) > 1
    for peer, rows in run_in_peers(SCRIPTS / "read_parquet.py", corpus, alone=False).items():
        assert rows == all_types.expected(), peer
