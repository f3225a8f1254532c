"""Rows of CSV files as Python's csv module reads them; what a cell means is a rule of tokenyard's, or of its option."""

import base64
import csv
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common
import lines


def prepare(job):
    csv.field_size_limit(sys.maxsize)

    def read_shard(shard):
        column = shard["meta"].get("tokens", "tokens")
        with lines.opened(Path(job["path"]) / shard["files"][0], "") as file:
            yield from common.batches((row(found, column) for found in csv.DictReader(file)), job["fields"])

    def row(found, column):
        cell = found[column]
        tokens = json.loads(cell) if cell.startswith("[") else [int(i) for i in cell.split()]
        fields = {n: value(found[n], t) if found.get(f"{n}.valid") != "0" else None for n, t in job["fields"].items()}
        return {"tokens": tokens, **fields}

    return read_shard


def value(cell, type):
    name = type.removesuffix("?").removesuffix("[]")
    if name == "string":
        return cell
    if name == "bytes":
        return base64.b64decode(cell)
    number = float if name.startswith("float") else (lambda text: text == "true") if name == "bool" else int
    return [number(text) for text in cell.split()] if "[]" in type else number(cell)


if __name__ == "__main__":
    common.main(None, "csv", prepare)
