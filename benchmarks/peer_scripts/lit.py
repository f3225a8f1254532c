"""litdata's TokensLoader on chunks that its own writer made, shuffled."""

import numpy as np
from litdata import StreamingDataset, TokensLoader
from litdata.streaming.writer import BinaryWriter
from shared import checked, loader, written

CHUNKS = 24


class Numbered(StreamingDataset):
    """Gives what `collate` takes."""

    def __getitem__(self, at):
        return int(getattr(at, "index", at)), super().__getitem__(at)


def tokens_loader(rows, folder, *, batch_size, num_workers):
    rows = np.load(rows, mmap_mode="r")

    def write(out):
        writer = BinaryWriter(str(out), chunk_bytes=max(rows.nbytes // CHUNKS, 1 << 16), item_loader=TokensLoader())
        for number, row in enumerate(rows):
            writer[number] = np.array(row)
        writer.done()
        writer.merge()

    chunks = written(folder / "litdata", write)
    dataset = Numbered(str(chunks), item_loader=TokensLoader(block_size=rows.shape[1]), shuffle=True, seed=1)
    return loader(dataset, batch_size=batch_size, num_workers=num_workers), checked(rows)
