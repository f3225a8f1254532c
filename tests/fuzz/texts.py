"""Files of texts to be tokenized, and how their mutants are read."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests.formats import mds_by_hand, tar_by_hand
from tokenyard.converters.text import Document, TextOptions, plan_texts, read_split
from tokenyard.errors import TokenyardError

_TEXTS = [f'text "{i}",\né' * (i % 4) for i in range(12)]
_JSONL = "".join(
    json.dumps({"text": t, "n": i, "s": None if i % 2 else t}) + "\n" for i, t in enumerate(_TEXTS)
).encode()
_CSV = "text,n,s\n" + "".join(f'"{t.replace(chr(34), chr(34) * 2)}",{i},x\n' for i, t in enumerate(_TEXTS))
_OPTIONS = TextOptions(fields={"n": "int64?", "s": "string?"}, max_document_bytes=1 << 20, split_bytes=200)


def _file(name: str, data: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / name).write_bytes(data)

    return make


def _parquet(folder: Path) -> None:
    folder.mkdir()
    table = pa.table({"text": _TEXTS, "n": list(range(12)), "s": pa.array(_TEXTS).dictionary_encode()})
    pq.write_table(table, folder / "a.parquet", row_group_size=5)


def _mds(folder: Path) -> None:
    samples = [{"text": t, "n": i, "s": t} for i, t in enumerate(_TEXTS)]
    mds_by_hand.dataset(folder, {"text": "str", "n": "int", "s": "str"}, samples, shard_rows=5, compression="zstd")


def _tar(folder: Path) -> None:
    members = {f"{i:03d}.json": json.dumps({"text": t, "n": i}).encode() for i, t in enumerate(_TEXTS)}
    tar_by_hand.make(folder / "a.tar", members)


#: By name, what makes them in a folder that is not there yet.
TEXTS: Mapping[str, Callable[[Path], None]] = {
    "text-txt-xz": _file("a.txt.xz", lzma.compress("".join(_TEXTS).encode())),
    "text-jsonl": _file("a.jsonl", _JSONL),
    "text-jsonl-gz": _file("a.jsonl.gz", gzip.compress(_JSONL, mtime=0)),
    "text-jsonl-zst": _file("a.jsonl.zst", zstandard.compress(_JSONL)),
    "text-csv": _file("a.csv", _CSV.encode()),
    "text-csv-bz2": _file("a.csv.bz2", bz2.compress(_CSV.encode())),
    "text-parquet": _parquet,
    "text-mds": _mds,
    "text-tar": _tar,
}


def read_texts(folder: Path) -> str:
    """``read``, or the message of the first error. Raises what is not allowed."""
    try:
        for split in plan_texts(folder, _OPTIONS).splits:
            for record in read_split(split, _OPTIONS):
                if isinstance(record, Document):
                    record.text.encode()
                else:
                    str(record)
    except TokenyardError as error:
        return str(error)
    return "read"
