"""Bytes on disk of the same rows: tars against ShardWriter's, and Parquet's default against what else pyarrow offers.

Everything counts that a corpus needs, indexes and manifest too. Of pyarrow every encoding of a list of uint16 is tried
with every codec that is built in, at its default level and, for zstd, at 9 as well; row groups are as large as ours.

A row of 2,048 uint16 tokens is in both tars a header of 512 bytes, and an array of 4,096 with a header of its own,
filled up to 4,608. ShardWriter puts 1,024 bytes before that for the time of writing, since it keeps fractions of a
second, which no plain header holds. Our rows have no time::

    python benchmarks/size.py --no-peers
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import corpora, peers, results

QUICK = ["--rows", "1024"]
TAR_BAR = 0.85
PARQUET_BAR = 1.05
#: Options of ours, the peer, and the bar. ShardWriter compresses at gzip's level 9, we at 1 unless told.
TARS: tuple[tuple[dict[str, Any], str, float | None], ...] = (
    ({"compression": "none"}, "webdataset", TAR_BAR),
    ({"compression": "gz", "compression_level": 9}, "webdataset gz", TAR_BAR),
    ({"compression": "gz"}, "webdataset gz", None),
)
ENCODINGS = ("PLAIN", "DICTIONARY", "BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED")
CODECS = (
    ("none", None),
    ("snappy", None),
    ("lz4", None),
    ("gzip", None),
    ("brotli", None),
    ("zstd", None),
    ("zstd", 9),
)
_LEAF = "tokens.list.element"
_GROUP_ROWS = 1024


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def tars(work: Path, rows: corpora.Tokens, num_shards: int) -> Iterator[results.Result]:
    """Ours and ShardWriter's; nothing where that is not installed."""
    for number, (options, name, bar) in enumerate(TARS):
        for found in peers.installed([name]):
            folder = work / f"tars-{number}"
            corpora.write_rows(folder, "webdataset", rows, num_shards, **options)
            with peers.peer(found, work / "rows.npy", work / name, batch_size=1, num_workers=0):
                theirs = size_of(work / name)
            yield results.Result(
                work="size",
                case="webdataset, " + ", ".join(f"{key} {value}" for key, value in options.items()),
                measured=size_of(folder) / theirs,
                unit="of ShardWriter's",
                bar=bar,
                at_most=True,
                rates={"bytes": size_of(folder), "ShardWriter": theirs},
            )


def parquet_sizes(rows: corpora.Tokens) -> dict[str, int]:
    """Bytes of one file by each encoding and codec."""
    items = pa.array(rows.reshape(-1))
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1])
    made = pa.table({"tokens": pa.ListArray.from_arrays(offsets, items)})
    found = {}
    for encoding, (codec, level) in product(ENCODINGS, CODECS):
        is_dictionary = encoding == "DICTIONARY"
        out = pa.BufferOutputStream()
        pq.write_table(
            made,
            out,
            compression=codec,
            compression_level=level,
            row_group_size=_GROUP_ROWS,
            use_dictionary=[_LEAF] if is_dictionary else False,
            column_encoding=None if is_dictionary else {_LEAF: encoding},
            write_statistics=False,
        )
        found[f"{encoding} {codec}" + (f" {level}" if level else "")] = out.getvalue().size
    return found


def parquet(work: Path, rows: corpora.Tokens, num_shards: int) -> results.Result:
    """Our default, against the smallest of all."""
    corpora.write_rows(work / "parquet", "parquet", rows, num_shards)
    ours = size_of(work / "parquet")
    others = parquet_sizes(rows)
    best = min(others, key=others.__getitem__)
    return results.Result(
        work="size",
        case=f"Parquet, against {best}",
        measured=ours / others[best],
        unit="of the smallest",
        bar=PARQUET_BAR,
        at_most=True,
        rates={"bytes": ours, **others},
    )


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure tars, then Parquet."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, default=corpora.ROWS // 3)
    parser.add_argument("--seq-len", type=int, default=corpora.SEQ_LEN)
    parser.add_argument("--shards", type=int, default=corpora.SHARDS // 3)
    parser.add_argument("--no-peers", action="store_true")
    args = parser.parse_args(arguments)
    rows = corpora.zipf_rows(args.rows, args.seq_len)
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        np.save(work / "rows.npy", rows)
        if not args.no_peers:
            found += tars(work, rows, args.shards)
        found.append(parquet(work, rows, args.shards))
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
