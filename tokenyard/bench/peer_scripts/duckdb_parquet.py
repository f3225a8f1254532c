"""A query of DuckDB over all tokens in Parquet, one thread."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    import duckdb

    connection = duckdb.connect()
    connection.sql("SET threads = 1")
    shards = common.files(job, ".parquet")

    def read_all():
        query = "SELECT sum(len(tokens)), sum(list_sum(tokens)) FROM read_parquet(?)"
        return int(connection.execute(query, [shards]).fetchone()[0])

    return common.reading(read_all, job)


if __name__ == "__main__":
    common.main("duckdb", measure)
