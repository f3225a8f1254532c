"""Samples of tars as WebDataset groups and decodes them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common
import numpy as np


def prepare(job):
    from webdataset import WebDataset

    def read_shard(shard):
        meta = shard["meta"]
        path = str(Path(job["path"]) / shard["files"][0])
        samples = WebDataset([path], shardshuffle=False, empty_check=False).decode()
        yield from common.batches((row(sample, meta) for sample in samples), job["fields"])

    def row(sample, meta):
        tokens = sample[meta.get("tokens", "tokens.npy")]
        if isinstance(tokens, bytes):
            tokens = np.frombuffer(tokens, np.dtype(meta["token_dtype"]))
        if isinstance(tokens, dict):
            (tokens,) = (v for v in tokens.values() if isinstance(v, list))
        found = {"tokens": tokens}
        for name, type in job["fields"].items():
            extension = meta["fields"][name][0] if "fields" in meta else f"{name}.{suffix(type)}"
            found[name] = sample.get(extension)
        return found

    return read_shard


def suffix(type):
    return {"string": "txt", "bytes": "bin"}.get(type.removesuffix("?"), "npy")


if __name__ == "__main__":
    common.main("webdataset", "webdataset", prepare)
