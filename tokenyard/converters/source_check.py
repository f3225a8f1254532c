"""Holding what a job has read to what its source promises."""

from __future__ import annotations

from collections.abc import Iterable

from tokenyard.converters.job import TaskOutput
from tokenyard.corpus import Corpus
from tokenyard.digest import Digester, Digests, combine
from tokenyard.errors import VerificationError


def digests_read(source: Corpus, outputs: Iterable[TaskOutput]) -> Digests:
    """The digests of the rows that tasks have read, which are all of the source, in order."""
    return combine([o.read for o in outputs if o.read] or [Digester(source.schema.fields).finish()])


def check_source(source: Corpus, read: Digests) -> None:
    """Hold the digests of what was read to those that the source's manifest promises. Raises VerificationError."""
    known = source.manifest.digests
    if known is not None and (found := known.differences(read)):
        raise VerificationError(
            f"{source.path}: its rows don't have the digest that its manifest promises ({'; '.join(found)}); "
            "the source is damaged: run 'tokenyard verify' on it. Nothing was published"
        )
