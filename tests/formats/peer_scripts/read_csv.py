"""Reads a corpus in CSV by its folder alone: DuckDB, pandas, datasets and the csv module, every cell as text."""

import csv
import json
import sys
from pathlib import Path

import datasets
import duckdb
import pandas as pd

folder = sys.argv[1]
files = sorted(str(p) for p in Path(folder).glob("*.csv"))


def from_csv():
    found = []
    for file in files:
        with open(file, newline="", encoding="utf-8") as f:
            found += list(csv.DictReader(f))
    return found


def from_duckdb():
    relation = duckdb.sql(
        f"SELECT * FROM read_csv('{folder}/*.csv', header=true, all_varchar=true, allow_quoted_nulls=false)"
    )
    return [
        dict(zip(relation.columns, ["" if v is None else v for v in row], strict=True)) for row in relation.fetchall()
    ]


frames = pd.concat([pd.read_csv(f, dtype=str, keep_default_na=False) for f in files])
text = datasets.Features({name: datasets.Value("string") for name in frames.columns})
loaded = datasets.load_dataset(folder, features=text, keep_default_na=False, cache_dir="cache")["train"]
plain = datasets.load_dataset(folder, cache_dir="cache")["train"]
sys.stdout.write(
    json.dumps(
        {
            "csv": from_csv(),
            "duckdb": from_duckdb(),
            "pandas": frames.to_dict("records"),
            "datasets": list(loaded),
            "datasets, by folder": [row["tokens"] for row in plain],
            "duckdb, sniffed": duckdb.sql(f"SELECT tokens FROM '{folder}/*.csv'").fetchall(),
        }
    )
)
