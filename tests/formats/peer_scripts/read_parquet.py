"""Reads a corpus in Parquet by its folder alone: pyarrow, DuckDB, pandas and datasets, each as it comes."""

import json
import sys
from pathlib import Path

import datasets
import duckdb
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))
from shown import shown

folder = sys.argv[1]
files = sorted(str(p) for p in Path(folder).glob("*.parquet"))


def rows(columns):
    names = list(columns)
    return [{n: shown(v) for n, v in zip(names, row, strict=True)} for row in zip(*columns.values(), strict=True)]


def from_duckdb():
    relation = duckdb.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')")
    return [{n: shown(v) for n, v in zip(relation.columns, row, strict=True)} for row in relation.fetchall()]


def from_pandas():
    frames = pd.concat([pd.read_parquet(f, dtype_backend="pyarrow") for f in files])
    return rows({n: [None if v is pd.NA else v for v in frames[n]] for n in frames.columns})


loaded = datasets.load_dataset(folder, cache_dir="cache")["train"]
sys.stdout.write(
    json.dumps(
        {
            "pyarrow": [{n: shown(v) for n, v in row.items()} for f in files for row in pq.read_table(f).to_pylist()],
            "pyarrow dataset": [
                {n: shown(v) for n, v in row.items()}
                for row in pyarrow.dataset.dataset(folder, format="parquet").to_table().to_pylist()
            ],
            "duckdb": from_duckdb(),
            "pandas": from_pandas(),
            "datasets": [{n: shown(v) for n, v in row.items()} for row in loaded],
        }
    )
)
