"""A corpus opened to be verified: also one whose manifest, or some of whose shards, can't be read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenyard.converters.verify.report import Problem
from tokenyard.corpus import Corpus
from tokenyard.corpus.locating import locate
from tokenyard.corpus.opening import open_readable
from tokenyard.corpus.places import INDEX_JOB
from tokenyard.errors import DataError, NoTokensError
from tokenyard.manifest import MANIFEST_NAME
from tokenyard.storage import ObjectPath


@dataclass(frozen=True, kw_only=True)
class Opened:
    """``corpus``: None where nothing of it can be opened. ``left_out``: files of shards that can't be indexed."""

    path: Path | ObjectPath | str
    corpus: Corpus | None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def open_to_verify(path: str | os.PathLike[str] | Corpus, read: Mapping[str, Any]) -> Opened:
    """Open a corpus with options of ``open_corpus``. Raises as that does, but for damaged data, which are told."""
    if isinstance(path, Corpus):
        return Opened(path=path.path, corpus=path, notes=_notes(path))
    problems: list[Problem] = []

    def on_bad(name: str, error: Exception) -> None:
        problems.append(Problem(message=f"{error}", file=name or None))

    try:
        corpus = open_readable(path, on_bad, **dict(read))
    except NoTokensError:
        raise
    except DataError as e:
        folder, _ = locate(path, "auto")
        name = MANIFEST_NAME if folder.exists(MANIFEST_NAME) else None
        note = "no shard was looked at, since what names them can't be read"
        return Opened(path=os.fspath(path), corpus=None, problems=(Problem(message=str(e), file=name),), notes=(note,))
    left_out = tuple(p.file for p in problems if p.file is not None)
    return Opened(path=corpus.path, corpus=corpus, problems=tuple(problems), notes=_notes(corpus), left_out=left_out)


def has_manifest(corpus: Corpus) -> bool:
    """Whether the corpus was opened by a manifest: then its row indexes are files that it names."""
    shards = corpus.manifest.shards
    return not shards or shards[0].index is not None


def is_own(corpus: Corpus) -> bool:
    """Whether tokenyard made the corpus, and its folder holds nothing else."""
    return has_manifest(corpus) and corpus.manifest.provenance.get("job") != INDEX_JOB


def _notes(corpus: Corpus) -> tuple[str, ...]:
    if has_manifest(corpus):
        return ()
    return (
        "there is no manifest, so no checksum to hold it to: a byte that changed inside tokens can't be seen, nor, but "
        "in MDS, whose index.json lists them, a shard that is gone. 'tokenyard index' writes down what is there now; "
        "--against compares with a copy",
    )
