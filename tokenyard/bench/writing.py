"""Measure in this process how fast a format is written, and prove what was written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenyard.bench.page_cache import files_of
from tokenyard.corpus import CorpusWriter, open_corpus
from tokenyard.digest import Digester, combine
from tokenyard.errors import VerificationError


@dataclass(frozen=True, kw_only=True)
class WriteJob:
    """Write the rows of ``source`` to ``path``, which must not be there."""

    source: str
    path: str
    format: str
    options: Mapping[str, Any]
    shard_bytes: int


def measure_writing(job: WriteJob) -> dict[str, Any]:
    """Write from memory to the disk (digest, checksums and fsync included), read back, and compare digests.

    Returns ``figures`` by metric, and how many ``shards`` and which ``digest`` there are. Raises VerificationError.
    """
    source = open_corpus(job.source)
    batches = list(source.batches())
    begun = time.perf_counter()
    with CorpusWriter(
        job.path,
        format=job.format,
        schema=source.schema,
        layout=source.layout,
        shard_bytes=job.shard_bytes,
        **job.options,
    ) as writer:
        for batch in batches:
            writer.write_batch(batch)
    seconds = time.perf_counter() - begun
    written = open_corpus(job.path)
    digester = Digester(written.schema.fields)
    for batch in written.batches():
        digester.update(batch)
    digests = combine([digester.finish()])
    expected = source.manifest.digests
    if expected is None or (differences := digests.differences(expected)):
        found = "; ".join(differences) if expected is not None else "those written have no digest"
        raise VerificationError(
            f"{job.path}: its rows read back are not those written ({found}); the disk lost data, or format "
            f"{job.format} has a defect"
        )
    size = sum(path.stat().st_size for path in files_of(Path(job.path)))
    return {
        "figures": {"write": source.num_tokens / seconds / 1e6, "size": size},
        "shards": len(written.manifest.shards),
        "digest": digests.tokens,
    }
