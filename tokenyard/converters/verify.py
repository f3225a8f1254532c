"""Check a corpus: each file by its checksum, each row decoded, the digest by the manifest or another corpus."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tokenyard.converters.executor import run_tasks
from tokenyard.converters.job import OnProgress, Progress, digest_rows, plan_rows
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.digest import Digester, Digests, Leaves, combine
from tokenyard.errors import TokenyardError
from tokenyard.manifest import FileInfo
from tokenyard.rows import RowBatch, first_id_from
from tokenyard.storage import checksum


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """What was found. ``problems`` is empty when the corpus is whole; each names the shard or the rows.

    ``damaged``: whether the corpus itself is; else the problems are how it differs from the other one.
    """

    path: str
    against: str | None
    num_files: int
    num_rows: int
    num_tokens: int
    digest: str | None
    expected_digest: str | None
    problems: tuple[str, ...]
    damaged: bool
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "ok": self.ok}


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """One task's result: the leaves of a run of rows, what stood in the way, the first row past the vocabulary."""

    leaves: Leaves | None = None
    num_rows: int = 0
    num_tokens: int = 0
    problems: tuple[str, ...] = ()
    past_vocabulary: tuple[int, int] | None = None


def verify(
    path: str | os.PathLike[str] | Corpus,
    *,
    against: str | os.PathLike[str] | Corpus | None = None,
    num_workers: int = 1,
    read: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Check the files of a corpus (presence, size, checksum) and its rows.

    Rows are all decoded; their ids must be below 2^32, and below the schema's ``vocab_size`` if it has one; their
    digest must be the manifest's. Files of the native layout beside the shards are checked too.

    ``against``: another corpus, in any format, whose digests must be equal; one without a digest is read too. ``read``:
    options of ``open_corpus`` for a corpus that others made. Problems with the data are reported, not raised.
    """
    begun = time.monotonic()
    corpus = path if isinstance(path, Corpus) else open_corpus(path, **dict(read or {}))
    expected = corpus.manifest.digests
    files = corpus.manifest.all_files
    problems = [p for _, found in run_tasks(_check_file, corpus, files, num_workers) for p in found]
    digests, row_problems = _read_rows(corpus, num_workers, on_progress)
    problems += row_problems
    if digests is not None and expected is not None:
        problems += [f"the rows differ from the manifest's digest: {d}" for d in expected.differences(digests)]
    damaged = bool(problems)
    if against is not None:
        other = against if isinstance(against, Corpus) else open_corpus(against)
        promised = other.manifest.digests
        other_problems: list[str] = []
        if promised is None:
            promised, other_problems = _read_rows(other, num_workers, None)
        problems += [f"{other.path}: {p}" for p in other_problems]
        if len(other) != len(corpus):
            problems.append(f"differs from {other.path}: {len(corpus)} rows here, {len(other)} rows there")
        if promised is not None and digests is not None:
            problems += [f"differs from {other.path}: {d}" for d in digests.differences(promised)]
        expected = promised
    return VerifyReport(
        path=str(corpus.path),
        against=None if against is None else str(against.path if isinstance(against, Corpus) else against),
        num_files=len(files),
        num_rows=len(corpus),
        num_tokens=corpus.num_tokens,
        digest=digests.tokens if digests else None,
        expected_digest=expected.tokens if expected else None,
        problems=tuple(problems),
        damaged=damaged,
        seconds=time.monotonic() - begun,
    )


def _read_rows(corpus: Corpus, num_workers: int, on_progress: OnProgress | None) -> tuple[Digests | None, list[str]]:
    """The digests of all rows, None when some can't be read; and what is wrong."""
    begun = time.monotonic()
    tasks = list(_plan_readable(corpus))
    found: dict[int, _Outcome] = {}
    rows = tokens = 0
    for number, outcome in run_tasks(_check_rows, corpus, tasks, num_workers):
        found[number] = outcome
        rows, tokens = rows + outcome.num_rows, tokens + outcome.num_tokens
        if on_progress:
            seconds = time.monotonic() - begun
            on_progress(
                Progress(rows=rows, tokens=tokens, bytes=0, unit="tokens", total=corpus.num_tokens, seconds=seconds)
            )
    outcomes = [found[i] for i in range(len(tasks))]
    problems = [p for o in outcomes for p in o.problems]
    leaves = [o.leaves for o in outcomes if o.leaves is not None]
    if problems:
        return None, problems
    past = min((o.past_vocabulary for o in outcomes if o.past_vocabulary is not None), default=None)
    return combine(leaves or [digest_rows(corpus)]), [_name_id(corpus, *past)] if past else []


def _plan_readable(corpus: Corpus) -> list[range]:
    """Runs of rows to check, each about 64 MiB; runs of equal row counts where an index can't be read."""
    try:
        return list(plan_rows(corpus, 64 << 20, np.dtype(corpus.schema.token_dtype).itemsize))
    except TokenyardError:
        step = 64 * 1024
        return [range(a, min(a + step, len(corpus))) for a in range(0, len(corpus), step)]


def _check_rows(corpus: Corpus, rows: range) -> _Outcome:
    digester = Digester(corpus.schema.fields)
    past = None
    row = rows.start
    try:
        for batch in corpus.batches(rows.start, rows.stop):
            digester.update(batch)
            past = past or _past_vocabulary(batch, row, corpus.schema.vocab_size)
            row += len(batch)
        leaves = digester.finish()
    except TokenyardError as e:
        return _Outcome(problems=(f"rows {rows.start} .. {rows.stop - 1}: {e}",), num_rows=len(rows))
    num_tokens = int(corpus.row_lengths(rows.start, rows.stop).sum())
    return _Outcome(leaves=leaves, num_rows=len(rows), num_tokens=num_tokens, past_vocabulary=past)


def _past_vocabulary(batch: RowBatch, first_row: int, vocab_size: int | None) -> tuple[int, int] | None:
    """The first row with an id from ``vocab_size`` on, and that id."""
    found = None if vocab_size is None else first_id_from(vocab_size, batch)
    return None if found is None else (first_row + found[0], found[1])


def _name_id(corpus: Corpus, row: int, token: int) -> str:
    shard = int(np.searchsorted(corpus.shard_row_starts, row, side="right")) - 1
    return (
        f"{corpus.folder.at(corpus.manifest.shards[shard].name)}: row {row} holds the id {token}, but the schema's "
        f"vocab_size is {corpus.schema.vocab_size}: the ids are another tokenizer's, or the schema is wrong"
    )


def _check_file(corpus: Corpus, file: FileInfo) -> tuple[str, ...]:
    path = corpus.folder.at(file.name)
    try:
        data = corpus.folder.map(file.name, file.bytes)
    except TokenyardError as e:
        return (str(e),)
    if file.checksum is not None and (found := checksum(data)) != file.checksum:
        return (f"{path}: its checksum is {found}, the manifest says {file.checksum}; restore this file",)
    return ()
