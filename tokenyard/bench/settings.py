"""What a run of the benchmark is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenyard.bench.variants import Variant, parse_variants
from tokenyard.errors import ConfigError

DEFAULT_SAMPLE_BYTES = 64 << 20
MAX_SHARD_BYTES = 8 << 20
#: Shards that what is measured fills at least, unless told otherwise.
LEAST_SHARDS = 8
DEFAULT_MADE_TOKENS = 32 << 20


@dataclass(frozen=True, kw_only=True)
class PeersSettings:
    """The environment of other libraries. ``python``: its interpreter; ``deadline_s``: what one run may take."""

    python: str
    deadline_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """See ``tokenyard bench --help``.

    Args:
        source: a corpus; None to make one.
        read: options of ``open_corpus`` for a source that others made.
        made_tokens: the tokens of a corpus that is made.
        made_documents: whether its rows are documents of log-normal lengths, not packed rows of ``seq_len``.
        folder: where everything is written; beside the source, or in the current folder, when None.
        keep: a folder to leave what was written in; None to remove it.
        sample_bytes: bytes of tokens that are taken of the source, at most.
        shard_bytes: bytes of tokens and fields after which a new shard begins, the same for all formats; when None, an
            eighth of what is measured, 8 MiB at most.
        seq_len: tokens of a sample; rows as they are where they are packed.
        batch_size: samples of a batch.
        rounds: how often everything is measured.
        seconds: how long one rate is measured in a round.
        cold: whether to measure with a cold page cache too.
        seed: of the order, and of a corpus that is made.
        peers: other libraries to measure; None for none.
        variants: what is compared.

    Raises ConfigError.
    """

    source: str | os.PathLike[str] | None = None
    read: Mapping[str, Any] = field(default_factory=dict)
    made_tokens: int = DEFAULT_MADE_TOKENS
    made_documents: bool = False
    folder: Path | None = None
    keep: Path | None = None
    sample_bytes: int = DEFAULT_SAMPLE_BYTES
    shard_bytes: int | None = None
    seq_len: int = 2048
    batch_size: int = 16
    rounds: int = 3
    seconds: float = 1.0
    cold: bool = True
    seed: int = 0
    peers: PeersSettings | None = None
    variants: Sequence[Variant] = field(default_factory=parse_variants)

    def __post_init__(self) -> None:
        for name in ("made_tokens", "sample_bytes", "shard_bytes", "seq_len", "batch_size", "rounds"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name}: expected a whole number from 1 on, found {value}")
        if not self.seconds > 0:
            raise ConfigError(f"seconds: expected a time above 0, found {self.seconds}")
        if self.keep is not None and self.folder is not None:
            raise ConfigError("dir and keep both say where to write; give keep alone to leave what was written there")
        if not self.variants:
            raise ConfigError("formats: expected one or more to measure, found none")
