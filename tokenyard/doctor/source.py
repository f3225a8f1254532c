"""What a job reads: where it lies, how much it is, and whether memory could hold it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenyard.corpus import Corpus
from tokenyard.storage.mounts import file_system


@dataclass(frozen=True, kw_only=True)
class Source:
    """The corpora of a job.

    Attributes:
        formats: of them.
        paths: where they lie.
        places: the types of their file systems, or the schemes of their URLs.
        num_bytes: of all shards.
        memory_bytes: of this machine; None where the system doesn't tell.
        files: those of shards that lie on a file system here.
    """

    formats: Sequence[str]
    paths: Sequence[str]
    places: Sequence[str]
    num_bytes: int
    memory_bytes: int | None
    files: Sequence[Path]

    def told(self) -> dict[str, Any]:
        """Return it as JSON values, without the names of files."""
        return {
            "formats": list(self.formats),
            "paths": list(self.paths),
            "places": list(self.places),
            "bytes": self.num_bytes,
            "memory_bytes": self.memory_bytes,
        }


def source_of(corpora: Sequence[Corpus]) -> Source:
    """Return what corpora say of themselves. Nothing of their tokens is read."""
    paths = [str(corpus.path) for corpus in corpora]
    places = [p.partition("://")[0] if "://" in p else file_system(Path(p)) for p in paths]
    return Source(
        formats=sorted({corpus.format for corpus in corpora}),
        paths=paths,
        places=sorted(set(filter(None, places))),
        num_bytes=sum(file.bytes for c in corpora for shard in c.manifest.shards for file in shard.files),
        memory_bytes=_memory_bytes(),
        files=[
            corpus.folder.at(file.name)
            for corpus in corpora
            if corpus.folder.asks_cheaply
            for shard in corpus.manifest.shards
            for file in shard.files
        ],
    )


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
