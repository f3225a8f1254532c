"""Turn texts into a corpus of documents: one row a document, in the order of the input, for any number of workers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tokenyard.converters.engines import Engine, TokenizerSpec, choose_engine, load_engine, load_tokenizer
from tokenyard.converters.executor import run_tasks
from tokenyard.converters.job import (
    OnProgress,
    Target,
    TaskOutput,
    collect,
    digests_of,
    provenance,
    total_counts,
    write_shards,
)
from tokenyard.converters.text import BadRecord, Document, Split, TextOptions, group_splits, plan_texts, read_split
from tokenyard.corpus import destination, publish_manifest
from tokenyard.errors import ConfigError, DataError, VerificationError
from tokenyard.formats.registry import get_format
from tokenyard.manifest import Manifest
from tokenyard.rows import Array, Column, Offsets, RowBatch, offsets_of
from tokenyard.schema import Schema, token_dtype_for

#: Documents are encoded in batches of about this many characters.
_BATCH_CHARACTERS = 4 << 20
_BATCH_DOCUMENTS = 1024


@dataclass(frozen=True, kw_only=True)
class TokenizeReport:
    """What tokenizing did. ``counts`` names bad records by kind, special text found in documents, and documents proven."""

    destination: str
    format: str
    tokenizer: str
    engine: str
    engine_reasons: tuple[str, ...]
    notes: tuple[str, ...]
    num_documents: int
    num_tokens: int
    num_input_bytes: int
    num_bad_records: int
    counts: Mapping[str, int]
    token_dtype: str
    digest: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What is done with each document and with records that are none."""

    add_bos: bool
    add_eos: bool
    on_bad_record: Literal["error", "skip"]
    max_bad_records: int | None
    prove_every: int
