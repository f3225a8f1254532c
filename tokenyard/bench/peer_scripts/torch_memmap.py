"""The plain way: a Dataset over memory-mapped .npy files, rows by index, in torch's DataLoader, no workers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    length = job["row_length"] or job["seq_len"]

    class Rows(Dataset):
        def __init__(self):
            # Fields lie in files of their own, as shard-00000.source.npy.
            paths = [path for path in common.files(job, ".npy") if Path(path).name.count(".") == 1]
            self.shards = [np.load(path, mmap_mode="r") for path in paths]
            self.ends = np.cumsum([len(shard) // length for shard in self.shards])

        def __len__(self):
            return int(self.ends[-1])

        def __getitem__(self, row):
            shard = int(np.searchsorted(self.ends, row, side="right"))
            row -= int(self.ends[shard - 1]) if shard else 0
            return common.sample(self.shards[shard][row * length : (row + 1) * length])

    rows = Rows()
    return common.training(
        lambda: DataLoader(
            rows,
            batch_size=job["batch_size"],
            shuffle=True,
            generator=torch.Generator().manual_seed(job["seed"]),
            collate_fn=common.collate,
        ),
        job,
    )


if __name__ == "__main__":
    common.main("torch", measure)
