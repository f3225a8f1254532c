"""A streaming IterableDataset of Hugging Face's datasets over Parquet, with a buffer of 1,000, no workers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    from datasets import config, load_dataset
    from torch.utils.data import DataLoader

    # It rests 5 s when an epoch's files are read, which would weigh too much on a small sample.
    config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0
    shards = common.files(job, ".parquet")

    def begin_epoch():
        table = load_dataset("parquet", data_files=shards, split="train", streaming=True, cache_dir="cache")
        table = table.select_columns(["tokens"]).shuffle(seed=job["seed"], buffer_size=1000).with_format("numpy")
        return DataLoader(table, batch_size=job["batch_size"], collate_fn=collate)

    def collate(rows):
        return common.collate([common.sample(row["tokens"]) for row in rows])

    return common.training(begin_epoch, job)


if __name__ == "__main__":
    common.main("datasets", measure)
