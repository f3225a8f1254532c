"""The table of text sources, and telling a file's kind by its name."""

from tokenyard.converters.text.compression import SUFFIXES
from tokenyard.converters.text.csv_rows import CSV
from tokenyard.converters.text.jsonl import JSONL
from tokenyard.converters.text.mds import MDS
from tokenyard.converters.text.options import Kind
from tokenyard.converters.text.parquet import PARQUET
from tokenyard.converters.text.split import Compression, TextSource
from tokenyard.converters.text.tar import TAR
from tokenyard.converters.text.txt import TXT

SOURCES: dict[Kind, TextSource] = {
    "txt": TXT,
    "jsonl": JSONL,
    "csv": CSV,
    "parquet": PARQUET,
    "mds": MDS,
    "tar": TAR,
}

KIND_SUFFIXES: dict[str, Kind] = {
    ".txt": "txt",
    ".text": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tar": "tar",
}
_SHORT = {".tgz": ".tar.gz", ".tbz2": ".tar.bz2", ".txz": ".tar.xz", ".tzst": ".tar.zst"}


def named_kind(path: str) -> tuple[Kind | None, Compression]:
    """Return the kind and the compression that a file's name claims; None for a name that claims no kind."""
    name = path.lower()
    for short, full in _SHORT.items():
        if name.endswith(short):
            name = name.removesuffix(short) + full
    compression: Compression = "none"
    for suffix, found in SUFFIXES.items():
        if name.endswith(suffix):
            name, compression = name.removesuffix(suffix), found
            break
    kind = next((kind for suffix, kind in KIND_SUFFIXES.items() if name.endswith(suffix)), None)
    return kind, compression
