"""Arrays of .npy files as numpy maps them; rows are where tokenyard says, since an array doesn't say it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common
import numpy as np


def prepare(job):
    names = ["tokens", *sorted(job["fields"])]

    def read_shard(shard):
        arrays = [opened(Path(job["path"]) / file, shard["meta"]) for file in shard["files"]]
        counts = {name: len(array) for name, array in zip(names, arrays, strict=True)}
        cuts = shard["cuts"]
        if counts != (promised := {name: cuts[name][-1] for name in names}):
            raise ValueError(f"the arrays have {counts} items, expected {promised}")
        for i, count in enumerate(shard["rows"]):
            yield count, {n: (a[cuts[n][i] : cuts[n][i + 1]], None, None) for n, a in zip(names, arrays, strict=True)}

    return read_shard


def opened(path, meta):
    with open(path, "rb") as f:
        has_header = f.read(6) == b"\x93NUMPY"
    array = np.load(path, mmap_mode="r") if has_header else np.memmap(path, meta["dtype"], "r")
    return array.reshape(-1)


if __name__ == "__main__":
    common.main("numpy", "numpy", prepare)
