"""CSV judged by the csv module, DuckDB, pandas and datasets."""

from pathlib import Path
from typing import Any

from tests.formats import all_types
from tests.formats.test_parquet_peers import SCRIPTS, write
from tests.peers import run_in_peers


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(cell(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_peers_read_every_cell_as_it_was_written(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", "csv")
    nullable = [n for n in all_types.values() if n.startswith("maybe_")]
    expected = []
    for i, row in enumerate(all_types.expected(bytes_as="base64")):
        cells = {"row": str(i), **{name: cell(value) for name, value in row.items()}}
        cells |= {f"{name}.valid": str(int(row[name] is not None)) for name in nullable}
        expected.append(cells)
    found = run_in_peers(SCRIPTS / "read_csv.py", corpus, alone=False)
    tokens = [cells["tokens"] or None for cells in expected]
    assert found.pop("datasets, by folder") == tokens
    assert [t for (t,) in found.pop("duckdb, sniffed")] == tokens
    for peer, rows in found.items():
        assert rows == expected, peer
