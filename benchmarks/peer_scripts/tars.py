"""webdataset on what ShardWriter wrote, with a shuffle buffer of 1,000 samples."""

import numpy as np
from shared import checked, loader, written
from webdataset import ShardWriter, WebDataset

SHARDS = 24
BUFFER = 1000


def numbered(sample):
    return int(sample["__key__"]), sample["tokens.npy"]


def opened(rows, folder, suffix, batch_size, num_workers):
    rows = np.load(rows, mmap_mode="r")

    def write(out):
        with ShardWriter(f"{out}/%06d{suffix}", maxcount=-(-len(rows) // SHARDS), verbose=0) as writer:
            for number, row in enumerate(rows):
                writer.write({"__key__": f"{number:09d}", "tokens.npy": np.array(row)})

    tars = [str(path) for path in sorted(written(folder / f"shards{suffix}", write).glob("*.tar*"))]
    samples = WebDataset(tars, shardshuffle=len(tars), empty_check=False).shuffle(BUFFER).decode().map(numbered)
    return loader(samples, batch_size=batch_size, num_workers=num_workers), checked(rows)


def shuffled(rows, folder, *, batch_size, num_workers):
    return opened(rows, folder, ".tar", batch_size, num_workers)


def compressed(rows, folder, *, batch_size, num_workers):
    return opened(rows, folder, ".tar.gz", batch_size, num_workers)
