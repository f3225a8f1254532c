"""Reads a mutant in every way there is, and says what came of it.

Allowed are a TokenyardError whose message can be printed, or rows that all ways of reading agree on. Where the digest
in the manifest is the original's and ``verify`` finds nothing wrong, the rows must be the original's.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tokenyard import verify
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.errors import TokenyardError
from tokenyard.manifest import MANIFEST_NAME, Manifest
from tokenyard.rows import RowBatch
from tokenyard.testing.compare import assert_same_items, assert_same_rows

#: Rows looked at; a forged manifest may promise any number.
_MAX_ROWS = 5000


class UnallowedError(AssertionError):
    """A mutant that was neither refused properly nor read rightly."""


@dataclass(frozen=True, kw_only=True)
class Original:
    """What an intact corpus holds."""

    manifest: Manifest
    rows: RowBatch
    own: bool

    @classmethod
    def read(cls, folder: Path) -> "Original":
        corpus = open_corpus(folder)
        rows = RowBatch.concat(list(corpus.batches()))
        return cls(manifest=corpus.manifest, rows=rows, own=(folder / MANIFEST_NAME).exists())


def read_mutant(folder: Path, number: int, original: Original) -> str:
    """``read``, ``verified`` or the message of the first error. Raises UnallowedError, and whatever is not allowed."""
    try:
        corpus = open_corpus(folder, read="mmap" if number % 2 else "pread")
    except TokenyardError as error:
        return _checked(error)
    problems = [m for way in _WAYS if (m := _attempt(partial(way, corpus, random.Random(number))))]
    report: list[Any] = []
    problems += filter(None, [_attempt(lambda: report.append(verify(corpus)))])
    if report and report[0].ok and original.own and corpus.manifest.digests is not None:
        if problems:
            raise UnallowedError(f"verify found nothing wrong, but: {problems[0]}")
        _check_same(corpus, original)
        return "verified"
    return problems[0] if problems else "read"


def _attempt(way: Callable[[], object]) -> str | None:
    try:
        way()
    except TokenyardError as error:
        return _checked(error)
    return None


def _checked(error: TokenyardError) -> str:
    """The message, if it can be printed and nothing had to run out of memory first."""
    message = str(error)
    message.encode()
    cause: BaseException | None = error
    while cause is not None:
        if type(cause) is MemoryError:
            raise UnallowedError(f"ran out of memory before it was refused: {message}")
        cause = cause.__cause__ or cause.__context__
    return message


def _check_same(corpus: Corpus, original: Original) -> None:
    found, expected = corpus.manifest.digests, original.manifest.digests
    if found is None or expected is None or found.tokens != expected.tokens:
        return
    rows = RowBatch.concat(list(corpus.batches()))
    names = [
        n
        for n, digest in found.fields.items()
        if digest == expected.fields.get(n) and corpus.schema.fields[n] == original.manifest.schema.fields[n]
    ]
    assert_same_rows([_only(rows, names)], _only(original.rows, names))


def _only(rows: RowBatch, names: list[str]) -> RowBatch:
    return RowBatch(tokens=rows.tokens, offsets=rows.offsets, fields={n: rows.fields[n] for n in names})


# ---- ways to read ----


def _in_order(corpus: Corpus, rng: random.Random) -> None:
    del rng
    for batch in _first_batches(corpus):
        batch.check()
        for i in range(len(batch)):
            batch.row(i)


def _at_random(corpus: Corpus, rng: random.Random) -> None:
    """Rows in any order are those that come in order."""
    if not len(corpus):
        return
    for row in [0, len(corpus) - 1, rng.randrange(len(corpus))]:
        tokens = corpus[row]
        assert_same_items(f"row {row}", tokens, corpus.row(row)["tokens"])
        rows = np.array([row, row], np.int64)
        items, offsets = corpus.gather_rows(rows)
        assert offsets.tolist() == [0, len(tokens), 2 * len(tokens)]
        assert_same_items(f"gathered row {row}", items, np.concatenate([tokens, tokens]))


def _gathered(corpus: Corpus, rng: random.Random) -> None:
    """A gather of rows of all shards gives what they hold in order."""
    rows = np.arange(min(len(corpus), _MAX_ROWS), dtype=np.int64)
    items, _ = corpus.gather_rows(rows, dtype=np.int64)
    found = [np.empty(0, np.int64), *(b.tokens.astype(np.int64) for b in _first_batches(corpus))]
    assert_same_items("all rows", items, np.concatenate(found)[: len(items)])
    shuffled = rng.sample(rows.tolist(), min(len(rows), 20))
    for name, type in corpus.schema.fields.items():
        if type.is_list:
            corpus.gather_rows(np.array(shuffled, np.int64), name)


def _windows(corpus: Corpus, rng: random.Random) -> None:
    if corpus.num_tokens >= 4:
        starts = np.array([0, rng.randrange(corpus.num_tokens - 3), corpus.num_tokens - 4], np.int64)
        found = corpus.gather_windows(starts, 4, dtype=np.int64)
        corpus.row_starts_in_windows(starts, 4)
        corpus.row_at(int(starts[1]))
        if corpus.num_tokens <= _MAX_ROWS:
            stream = corpus.gather_windows(np.array([0], np.int64), corpus.num_tokens)[0]
            assert_same_items("windows", found, stream[starts[:, None] + np.arange(4)])


def _lengths(corpus: Corpus, rng: random.Random) -> None:
    del rng
    lengths = corpus.row_lengths(0, min(len(corpus), _MAX_ROWS))
    found = [len(b.row(i)["tokens"]) for b in _first_batches(corpus) for i in range(len(b))]
    assert lengths.tolist() == found


def _first_batches(corpus: Corpus) -> Iterator[RowBatch]:
    yield from islice(corpus.batches(0, min(len(corpus), _MAX_ROWS)), 100)


_WAYS = [_in_order, _at_random, _gathered, _windows, _lengths]


# ---- mutants on the disk ----


def write_mutant(folder: Path, files: dict[str, bytes], number: int) -> None:
    """Write a mutant's files; now and then one lies elsewhere and is linked, or a folder is in its place."""
    rng = random.Random(-number)
    for name, data in files.items():
        path = folder / name
        with suppress(OSError):  # of two names one may be a folder of the other
            path.parent.mkdir(parents=True, exist_ok=True)
            if rng.random() < 0.01:
                elsewhere = folder.parent / f"{folder.name} elsewhere"
                elsewhere.write_bytes(data)
                path.symlink_to(rng.choice([elsewhere, elsewhere, folder, Path("/dev/zero"), path]))
            elif rng.random() < 0.005:
                path.mkdir()
            else:
                path.write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    """All files of a corpus, those of ours too."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
