"""Samples of MDS shards as StreamingDataset decodes them, by the reader that it opens each shard of index.json with."""

import json
import sys
import tempfile
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import common
import numpy as np


def prepare(job):
    from streaming.base.compression import decompress
    from streaming.base.format import reader_from_json

    folder = Path(job["path"])

    @cache
    def entries():
        shards = json.loads((folder / "index.json").read_bytes())["shards"]
        return {e[part]["basename"]: e for e in shards for part in ("raw_data", "zip_data") if e[part]}

    def read_shard(shard):
        name = shard["files"][0]
        if name not in entries():
            raise ValueError(f"index.json names no {name}")
        entry = entries()[name]
        with tempfile.TemporaryDirectory() as unpacked:
            where = folder
            if name != entry["raw_data"]["basename"]:
                where = Path(unpacked)
                (where / entry["raw_data"]["basename"]).write_bytes(
                    decompress(entry["compression"], (folder / name).read_bytes())
                )
            reader = reader_from_json(str(where), None, entry)
            rows = (row(reader[i], shard["meta"]) for i in range(len(reader)))
            yield from common.batches(rows, job["fields"])

    def row(sample, meta):
        tokens = sample[meta.get("tokens", "tokens")]
        if isinstance(tokens, bytes):
            tokens = np.frombuffer(tokens, np.dtype(meta["token_dtype"]).newbyteorder("<"))
        found = {"tokens": tokens}
        for name in job["fields"]:
            found[name] = sample[name] if sample.get(f"{name}.valid", 1) else None
        return found

    return read_shard


if __name__ == "__main__":
    common.main("mosaicml-streaming", "streaming", prepare)
