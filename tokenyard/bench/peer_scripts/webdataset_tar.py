"""WebDataset over tars, shuffled by a buffer of 1,000 samples, in torch's DataLoader, no workers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    from torch.utils.data import DataLoader
    from webdataset import WebDataset

    shards = common.files(job, ".tar") or common.files(job, ".tar.gz")

    def begin_epoch():
        dataset = WebDataset(shards, shardshuffle=len(shards), empty_check=False, seed=job["seed"])
        dataset = dataset.shuffle(1000).decode().map(lambda row: common.sample(row["tokens.npy"]))
        return DataLoader(dataset, batch_size=job["batch_size"], collate_fn=common.collate)

    return common.training(begin_epoch, job)


if __name__ == "__main__":
    common.main("webdataset", measure)
