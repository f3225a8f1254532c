"""StreamingDataset of mosaicml-streaming over MDS shards, in torch's DataLoader, no workers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common


def measure(job):
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    # Compressed shards are unpacked beside where they lie; so that ours stay as they are, into a folder of its own.
    packed = not common.files(job, ".mds")
    where = {"remote": job["path"], "local": "unpacked"} if packed else {"local": job["path"]}
    dataset = StreamingDataset(**where, shuffle=True, shuffle_seed=job["seed"], batch_size=job["batch_size"])

    def collate(rows):
        return common.collate([common.sample(row["tokens"]) for row in rows])

    return common.training(lambda: DataLoader(dataset, batch_size=job["batch_size"], collate_fn=collate), job)


if __name__ == "__main__":
    common.main("mosaicml-streaming", measure)
