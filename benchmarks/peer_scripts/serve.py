"""Runs one peer: takes batches for as many seconds as each line of input says, and prints samples a second.

``null``, or the end of the input, ends it. The first line of input says the options. Arguments: the peer, the file of
tokens, the peer's folder. With ``--installed`` and names of peers: prints which of them can be imported.
"""

import importlib
import importlib.util
import json
import os
import sys
import time
import warnings
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# What is printed by libraries, also below Python, goes where errors go.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
warnings.simplefilter("ignore")

#: The module of each peer, what it needs, and the name of the function in it that opens.
PEERS = {
    "StreamingDataset": ("mds", "streaming", "raw"),
    "StreamingDataset zstd": ("mds", "streaming", "zstd"),
    "webdataset": ("tars", "webdataset", "shuffled"),
    "webdataset gz": ("tars", "webdataset", "compressed"),
    "datasets map-style": ("parquet", "datasets", "map_style"),
    "datasets IterableDataset": ("parquet", "datasets", "iterable"),
    "MMapDataset": ("memmap", "torch", "distributed"),
    "MMapDataset with a fast collate": ("memmap", "torch", "collated"),
    "litdata TokensLoader": ("lit", "litdata", "tokens_loader"),
    "Megatron IndexedDataset": ("megatron_", "megatron.core", "indexed"),
    "Megatron GPTDataset": ("megatron_", "megatron.core", "gpt"),
}


def answer(value):
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def is_installed(library):
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def forever(loader):
    while True:
        yield from loader


def serve(name, rows, folder):
    import torch

    torch.set_num_threads(1)
    options = json.loads(sys.stdin.readline())
    module, _, opener = PEERS[name]
    loader, check = getattr(importlib.import_module(module), opener)(Path(rows), Path(folder), **options)
    batches = forever(loader)
    check(next(batches))
    answer(0)
    for line in sys.stdin:
        seconds, count = json.loads(line), 0
        if seconds is None:
            break
        for _ in islice(batches, 4 * options["num_workers"] + 1):  # what was read ahead
            pass
        started = time.perf_counter()
        while (spent := time.perf_counter() - started) < seconds:
            batch = next(batches)
            count += 1
        check(batch)
        answer(count * options["batch_size"] / spent)


if __name__ == "__main__":
    if sys.argv[1] == "--installed":
        answer([name for name in sys.argv[2:] if is_installed(PEERS[name][1])])
    else:
        serve(*sys.argv[1:])
