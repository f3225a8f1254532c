"""Reads a corpus in JSONL by its folder alone: DuckDB, pandas, datasets and pyarrow, each as it comes."""

import json
import sys
from pathlib import Path

import datasets
import duckdb
import pandas as pd
import pyarrow.json

sys.path.insert(0, str(Path(__file__).parent))
from shown import shown, without_nan

folder = sys.argv[1]
files = sorted(str(p) for p in Path(folder).glob("*.jsonl*"))
loaded = datasets.load_dataset(folder, cache_dir="cache")["train"]
relation = duckdb.sql(f"SELECT * FROM read_json('{folder}/*.jsonl*', maximum_object_size=1000000)")
found = {
    "duckdb": [{n: shown(v) for n, v in zip(relation.columns, row, strict=True)} for row in relation.fetchall()],
    "pandas": [
        {n: shown(without_nan(v)) for n, v in row.items()}
        for f in files
        for row in pd.read_json(f, lines=True, dtype_backend="numpy_nullable", precise_float=True).to_dict("records")
    ],
    "datasets": [{n: shown(v) for n, v in row.items()} for row in loaded],
}
if all(f.endswith(".jsonl") for f in files):
    tables = [pyarrow.json.read_json(f) for f in files]
    found["pyarrow"] = [{n: shown(v) for n, v in row.items()} for t in tables for row in t.to_pylist()]
sys.stdout.write(json.dumps(found))
