"""StreamingDataset on what MDSWriter wrote."""

import numpy as np
from shared import checked, loader, written
from streaming import MDSWriter, StreamingDataset

SHARDS = 24


class Numbered(StreamingDataset):
    """Gives what `collate` takes."""

    def __getitem__(self, at):
        sample = super().__getitem__(at)
        return sample["number"], sample["tokens"]


def opened(rows, folder, compression, batch_size, num_workers):
    rows = np.load(rows, mmap_mode="r")

    def write(out):
        columns = {"number": "int", "tokens": "ndarray:uint16"}
        size = max(rows.nbytes // SHARDS, 1 << 16)
        with MDSWriter(out=str(out), columns=columns, compression=compression, size_limit=size) as writer:
            for number, row in enumerate(rows):
                writer.write({"number": number, "tokens": np.array(row)})

    local = written(folder / f"mds-{compression}", write)
    dataset = Numbered(local=str(local), shuffle=True, shuffle_seed=1, batch_size=batch_size)
    return loader(dataset, batch_size=batch_size, num_workers=num_workers), checked(rows)


def raw(rows, folder, *, batch_size, num_workers):
    return opened(rows, folder, None, batch_size, num_workers)


def zstd(rows, folder, *, batch_size, num_workers):
    return opened(rows, folder, "zstd", batch_size, num_workers)
