"""Whole Parquet files read by pyarrow, as tables, one thread."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    shards = common.files(job, ".parquet")

    def read_all():
        tables = (pq.read_table(path, columns=["tokens"], use_threads=False) for path in shards)
        return sum(len(chunk.flatten()) for table in tables for chunk in table["tokens"].chunks)

    return common.reading(read_all, job)


if __name__ == "__main__":
    common.main("pyarrow", measure)
