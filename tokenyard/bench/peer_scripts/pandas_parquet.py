"""Whole Parquet files read by pandas, as it does by default."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    import pandas as pd

    shards = common.files(job, ".parquet")

    def read_all():
        return sum(int(pd.read_parquet(path, columns=["tokens"])["tokens"].map(len).sum()) for path in shards)

    return common.reading(read_all, job)


if __name__ == "__main__":
    common.main("pandas", measure)
