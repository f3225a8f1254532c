"""A map-style Dataset of Hugging Face's datasets, shuffled, in torch's DataLoader, no workers.

It unpacks Parquet into Arrow files of its own before the first epoch; that isn't counted.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    import torch
    from datasets import load_dataset
    from torch.utils.data import DataLoader

    shards = common.files(job, ".parquet")
    table = load_dataset("parquet", data_files=shards, split="train", cache_dir="cache").select_columns(["tokens"])
    table = table.with_format("numpy")

    def collate(rows):
        return common.collate([common.sample(row["tokens"]) for row in rows])

    return common.training(
        lambda: DataLoader(
            table,
            batch_size=job["batch_size"],
            shuffle=True,
            generator=torch.Generator().manual_seed(job["seed"]),
            collate_fn=collate,
        ),
        job,
    )


if __name__ == "__main__":
    common.main("datasets", measure)
