"""JSONL judged by DuckDB, pandas, datasets and pyarrow."""

from pathlib import Path

import pytest

from tests.formats import all_types
from tests.formats.test_parquet_peers import SCRIPTS, write
from tests.peers import run_in_peers


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_peers_read_every_field_by_the_folder_alone(tmp_path: Path, compression: str) -> None:
    corpus = write(tmp_path / "corpus", "jsonl", finite=True, shard_bytes=2_000, compression=compression)
    found = run_in_peers(SCRIPTS / "read_jsonl.py", corpus, alone=False)
    expected = all_types.expected(finite=True, bytes_as="base64")
    # pandas takes whole numbers with nulls among them for floats, whatever is asked of it.
    for row, other in zip(found["pandas"], expected, strict=True):
        row["maybe_one_int64"] = other["maybe_one_int64"]
    for peer, rows in found.items():
        assert rows == expected, peer
