"""What people do today: the official reader of one format, row by row into the official writer of another.

Runs in the peers' environment, by `convert.py`. Prints the seconds, without imports, as JSON::

    python benchmarks/convert_peers.py SRC FROM DST TO
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import webdataset
from streaming import MDSWriter, StreamingDataset

Rows = Iterator[Any]


def read(path: Path, format: str) -> Rows:
    """Rows of an own corpus, by the official reader."""
    if format == "mds":
        for sample in StreamingDataset(local=str(path), shuffle=False, batch_size=1):
            yield sample["tokens"]
    elif format == "webdataset":
        shards = [str(shard) for shard in sorted(path.glob("*.tar"))]
        for sample in webdataset.WebDataset(shards, shardshuffle=False, empty_check=False).decode():
            yield sample["tokens.npy"]
    else:
        for shard in sorted(path.glob("*.npy")):
            lengths = row_lengths(path / ".tokenyard" / "index" / f"{shard.stem}.idx")
            yield from np.split(np.load(shard, mmap_mode="r"), np.cumsum(lengths)[:-1])


def row_lengths(index: Path) -> Any:
    """Flat .npy files keep their rows' lengths apart; numpy knows none, so this reads ours."""
    data = index.read_bytes()
    start = data.index(b"\n") + 1
    end = data.index(b"\n", start)
    said = json.loads(data[start:end])["arrays"]["offsets"]
    if "step" in said:
        return np.full(said["count"] - 1, said["step"])
    return np.diff(np.frombuffer(data, "<i8", said["count"], end + 1))


def write(rows: Rows, path: Path, format: str) -> None:
    """Rows into 64 MiB shards, by the official writer."""
    if format == "mds":
        with MDSWriter(out=str(path), columns={"tokens": "ndarray:uint16"}, size_limit=64 << 20) as writer:
            for row in rows:
                writer.write({"tokens": row})
    elif format == "webdataset":
        path.mkdir()
        with webdataset.ShardWriter(str(path / "%05d.tar"), maxsize=64 << 20, verbose=0) as writer:
            for i, row in enumerate(rows):
                buffer = io.BytesIO()
                np.save(buffer, row)
                writer.write({"__key__": f"{i:09d}", "tokens.npy": buffer.getvalue()})
    else:
        path.mkdir()
        parts = list(rows)
        np.save(path / "tokens.npy", np.concatenate(parts))
        np.save(path / "lengths.npy", np.array([len(part) for part in parts]))


def main() -> None:
    source, read_format, result, write_format = sys.argv[1:]
    begun = time.perf_counter()
    write(read(Path(source), read_format), Path(result), write_format)
    print(json.dumps({"seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
