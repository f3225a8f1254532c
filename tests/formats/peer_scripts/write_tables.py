"""Writes the same three rows with pandas, DuckDB and datasets, in Parquet, JSON lines and CSV."""

import sys
from pathlib import Path

import datasets
import duckdb
import numpy as np
import pandas as pd

folder = Path(sys.argv[1])
tokens = [[1, 2, 3], [], [70000]]
source = ["web", None, 'a "quoted"\nline, with a comma']
score = [0.5, 1.0, -2.25]

frame = pd.DataFrame({"input_ids": tokens, "source": source, "score": score, "seen": [True, False, True]})
frame.to_parquet(folder / "pandas.parquet")
pd.DataFrame({**frame, "input_ids": [np.array(t, np.uint16 if len(t) != 1 else np.uint32) for t in tokens]}).to_parquet(
    folder / "pandas-numpy.parquet", index=False, compression="gzip"
)
frame.to_json(folder / "pandas.jsonl", orient="records", lines=True)
text = frame.assign(input_ids=[" ".join(map(str, t)) for t in tokens])
text.to_csv(folder / "pandas.csv", index=False)
text.to_csv(folder / "pandas-index.csv")
frame.to_csv(folder / "pandas-lists.csv", index=False)

duckdb.register("frame", frame)
columns = "input_ids::UINTEGER[] AS input_ids, source, score, seen"
for name in ("duckdb.parquet", "duckdb.jsonl", "duckdb.csv"):
    kind = {"parquet": "FORMAT parquet, COMPRESSION zstd", "jsonl": "FORMAT json", "csv": "FORMAT csv, HEADER"}
    duckdb.execute(f"COPY (SELECT {columns} FROM frame) TO '{folder / name}' ({kind[name.split('.')[1]]})")

data = datasets.Dataset.from_dict(
    {"input_ids": tokens, "source": source, "score": score, "seen": [True, False, True]},
    features=datasets.Features(
        {
            "input_ids": datasets.List(datasets.Value("int32")),
            "source": datasets.Value("string"),
            "score": datasets.Value("float64"),
            "seen": datasets.Value("bool"),
        }
    ),
)
data.to_parquet(folder / "datasets.parquet")
data.to_json(folder / "datasets.jsonl")
