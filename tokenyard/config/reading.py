"""Settings of reading a corpus that others made; ours say all of it themselves."""

from typing import Annotated, Literal

from pydantic import Field

from tokenyard.config.section import Section
from tokenyard.formats.base import Split

Count = Annotated[int, Field(ge=1)]


class ReadConfig(Section):
    """What `open_corpus` takes."""

    format: str = "auto"
    """auto, or the format that must be there: npy, mds, webdataset, parquet, jsonl, csv."""
    read: Literal["auto", "mmap", "pread"] = "auto"
    """How the bytes of raw shards come (npy, mds, webdataset). mmap: memory maps. pread: ranges, read into memory.
    auto: pread on network file systems, else mmap. Batches are the same."""
    tokens: str | None = None
    """The column, key or tar extension that holds the tokens."""
    token_dtype: str | None = None
    """The dtype of tokens kept as bare bytes."""
    fields: list[str] | None = None
    """The extra columns to keep; all when not given."""
    split: Split | None = None
    """How one long array is cut into rows: {length: N}, or {eos: ID}."""
