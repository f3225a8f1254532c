"""info, peek and report on what the official libraries wrote, as it is."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.formats.test_parquet_peers import SCRIPTS
from tests.peers import run_in_peers

ROWS = [[1, 2, 3, 9], [4, 9], [5] * 40]
TABLES = ["pandas.parquet", "duckdb.parquet", "datasets.parquet", "datasets.jsonl", "pandas.csv"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folders and files of mosaicml-streaming, webdataset, pandas, DuckDB and datasets."""
    home = tmp_path_factory.mktemp("others")
    samples = [{"tokens": row, "source": f"<b>file {i}</b>\x1b[2J"} for i, row in enumerate(ROWS)]
    wanted = {"columns": {"tokens": "ndarray:uint16", "source": "str"}, "samples": samples, "options": {}}
    run_in_peers(SCRIPTS / "mds_write.py", home, json_in={"mds": wanted})
    (home / "wds").mkdir()
    tar = [{"__key__": f"{i:04}", "tokens.npy": ["uint16", row], "source.txt": "web"} for i, row in enumerate(ROWS)]
    run_in_peers(SCRIPTS / "wds_write.py", home / "wds" / "shard-%05d.tar", json_in=tar, alone=False)
    (home / "tables").mkdir()
    run_in_peers(SCRIPTS / "write_tables.py", home / "tables", alone=False)
    return home


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("name", "format"), [("mds", "mds"), ("wds", "webdataset")])
def test_shards_of_streaming_and_webdataset_are_looked_into(written, tmp_path, name, format):
    path = written / name
    found = json.loads(run("info", path, "--full", "--json"))
    assert (found["format"], found["rows"], found["tokens"], found["tokens_counted"]) == (format, 3, 46, 46)
    assert (found["shortest_row"], found["median_row"], found["longest_row"]) == (2, 4, 40)
    shown = run("peek", path, "--row", "0:2")
    assert "row 0: 4 tokens\n1 2 3 9\n" in shown
    assert "\x1b" not in shown
    assert [row["tokens"] for row in json.loads(run("peek", path, "--num", 3, "--json"))] == ROWS
    assert json.loads(run("peek", path, "--search", "5 5", "--json"))["hits"] == [{"row": 2, "start": 0, "stop": 2}]
    page = report(path, tmp_path)
    assert "3 rows, 46 tokens in 1 shards" in page
    assert "It says nothing: tokenyard didn" in page
    assert "<b>file" not in page


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_others_are_looked_into(written, tmp_path, name):
    path = written / "tables" / name
    found = json.loads(run("info", path, "--sample", 1, "--json"))
    assert (found["rows"], found["tokens"], found["empty_rows"], found["digest"]) == (3, 4, 1, None)
    assert found["structural_id"].startswith("structural:")
    assert "70000" in run("peek", path, "--row", -1)
    assert "3 rows, 4 tokens" in report(path, tmp_path)


def test_corpora_of_different_libraries_are_compared(written, tmp_path):
    page = report(written / "mds", tmp_path, written / "wds")
    assert "Row 0 is the first that differs: field &#x27;source&#x27;" in page
    assert "structural:" in page


def report(path, folder, *others):
    run("report", path, *others, "-o", folder / "page.html", "--steps", 2)
    return Path(folder / "page.html").read_text()
