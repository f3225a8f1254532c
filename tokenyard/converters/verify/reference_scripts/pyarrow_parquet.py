"""Rows of Parquet files as pyarrow reads them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common
import numpy as np


def prepare(job):
    import pyarrow.parquet as pq

    def read_shard(shard):
        tokens = shard["meta"].get("tokens", "tokens")
        with pq.ParquetFile(Path(job["path"]) / shard["files"][0]) as file:
            for batch in file.iter_batches(common.ROWS, columns=[tokens, *job["fields"]]):
                found = {"tokens": ids(batch.column(tokens))}
                for name, type in job["fields"].items():
                    found[name] = common.column(batch.column(name).to_pylist(), type)
                yield len(batch), found

    return read_shard


def ids(lists):
    import pyarrow as pa
    import pyarrow.compute as pc

    items = lists.flatten()
    if pa.types.is_dictionary(items.type):
        items = items.cast(items.type.value_type)
    return items.to_numpy(zero_copy_only=False), pc.list_value_length(lists).to_numpy().astype(np.int64), None


if __name__ == "__main__":
    common.main("pyarrow", "pyarrow", prepare)
