"""The rows of the golden corpora of MDS and WebDataset, which lie in ``tests/golden``.

They were written once and are never written again: bytes that a release wrote must decode for ever. ``python -m
tests.formats.golden`` makes those that are missing.
"""

from pathlib import Path
from typing import Any

import numpy as np

from tokenyard import CorpusWriter, Schema
from tokenyard.formats.index import ShardIndex

GOLDEN = Path(__file__).parent.parent / "golden"
FIELDS = {"flag": "bool", "mask": "uint8[]", "score": "float32?", "source": "string?", "blob": "bytes"}
ROWS: list[dict[str, Any]] = [
    {"tokens": [1, 2, 65535], "flag": True, "mask": [1, 1, 0], "score": 0.5, "source": "wikipédia", "blob": b"\0\xff"},
    {"tokens": [], "flag": False, "mask": [], "score": None, "source": None, "blob": b""},
    {"tokens": list(range(300)), "flag": True, "mask": [0] * 300, "score": -1.0, "source": "", "blob": b"x"},
]
#: For each corpus its format and options.
CORPORA: dict[str, tuple[str, dict[str, Any]]] = {
    "mds/raw": ("mds", {"shard_bytes": 20}),
    "mds/zstd": ("mds", {"compression": "zstd"}),
    "mds/gz": ("mds", {"compression": "gz"}),
    "mds/br": ("mds", {"compression": "br"}),
    "mds/bz2": ("mds", {"compression": "bz2"}),
    "mds/snappy": ("mds", {"compression": "snappy"}),
    "webdataset/raw": ("webdataset", {"shard_bytes": 20}),
    "webdataset/gz": ("webdataset", {"compression": "gz"}),
}
#: Of all rows.
DIGEST = "ty1:4596b9ed2b3240601be24be532d0635d0a60d86f96112be212cd683453ce147d"


def write(name: str, folder: Path) -> None:
    format, options = CORPORA[name]
    schema = Schema(token_dtype="uint16", eos_token_id=2, fields=FIELDS)
    with CorpusWriter(folder, format=format, schema=schema, **options) as writer:
        for row in ROWS:
            writer.write(np.array(row["tokens"], np.uint16), **{n: row[n] for n in FIELDS})


def without_cells(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of a corpus as they were before checksums of cells stood in row indexes, but for its manifest."""
    found = {}
    for name, data in files.items():
        if name.endswith(".idx"):
            index = ShardIndex.from_bytes(data, name)
            kept = {n: a for n, a in index.arrays.items() if not n.startswith("xxh3:")}
            data = ShardIndex(arrays=kept, meta=index.meta).to_bytes()
        if not name.endswith("manifest.json"):
            found[name] = data
    return found


if __name__ == "__main__":
    for corpus in CORPORA:
        if not (GOLDEN / corpus).exists():
            write(corpus, GOLDEN / corpus)
