"""What pandas, DuckDB and datasets write opens as a corpus, as it is."""

from pathlib import Path

import pytest

import tokenyard
from tests.formats.read_back import column
from tests.formats.test_parquet_peers import SCRIPTS
from tests.peers import run_in_peers
from tokenyard.storage.objects import open_objects

TOKENS = [[1, 2, 3], [], [70000]]
SOURCES = ["web", None, 'a "quoted"\nline, with a comma']
FIELDS = {"source": "string?", "score": "float64?", "seen": "bool?"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    run_in_peers(SCRIPTS / "write_tables.py", folder, alone=False)
    return folder


def assert_same_from_a_bucket(corpus: tokenyard.Corpus, path: Path, bucket: str) -> None:
    open_objects(bucket).put(path.name, path.read_bytes())
    remote = tokenyard.open_corpus(f"{bucket}/{path.name}", format=corpus.format)
    assert remote.schema == corpus.schema
    for i in range(len(corpus)):
        mine, theirs = corpus.row(i), remote.row(i)
        assert mine.pop("tokens").tolist() == theirs.pop("tokens").tolist()
        assert mine == theirs


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("pandas.parquet", "int64"),
        ("pandas-numpy.parquet", "uint32"),
        ("duckdb.parquet", "uint32"),
        ("datasets.parquet", "int32"),
        ("pandas.jsonl", "uint32"),
        ("duckdb.jsonl", "uint32"),
        ("datasets.jsonl", "uint32"),
    ],
)
def test_tables_and_lines_open_with_their_fields(files: Path, bucket: str, name: str, dtype: str) -> None:
    corpus = tokenyard.open_corpus(files / name, format=name.split(".")[1])
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == FIELDS
    assert corpus.schema.token_dtype == dtype
    assert [t.tolist() for t in column(corpus, "tokens")] == TOKENS
    assert column(corpus, "source") == SOURCES
    assert column(corpus, "score") == [0.5, 1.0, -2.25]
    assert column(corpus, "seen") == [True, False, True]
    assert_same_from_a_bucket(corpus, files / name, bucket)


@pytest.mark.parametrize("name", ["pandas.csv", "pandas-index.csv", "pandas-lists.csv", "duckdb.csv"])
def test_csv_opens_with_its_other_columns_as_text(files: Path, bucket: str, name: str) -> None:
    corpus = tokenyard.open_corpus(files / name, format="csv")
    assert {n: str(t) for n, t in corpus.schema.fields.items()} == dict.fromkeys(FIELDS, "string")
    assert [t.tolist() for t in column(corpus, "tokens")] == TOKENS
    assert column(corpus, "source") == [s or "" for s in SOURCES]
    assert [float(s) for s in column(corpus, "score")] == [0.5, 1.0, -2.25]
    assert_same_from_a_bucket(corpus, files / name, bucket)
