"""Checks of shards: quick ones of what surrounds the rows, and full ones of every byte and row.

A shard that is damaged is a problem with its name; the next one is looked at nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from tokenyard.converters.verify.leaves import BlockLeaves, Blocks
from tokenyard.converters.verify.plan import Run
from tokenyard.converters.verify.report import Problem
from tokenyard.corpus import Corpus
from tokenyard.digest import Leaves
from tokenyard.errors import TokenyardError
from tokenyard.formats.shared.foreign import check_ids
from tokenyard.manifest import FileInfo
from tokenyard.rows import RowBatch, first_id_from

#: Runs of rows of one shard that are told apart; what is behind them is told as one.
_MAX_TOLD = 16
_REQUESTS_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the check of a run gave: the leaves of its rows (None when some can't be read), and what is wrong."""

    blocks: Blocks
    leaves: Leaves | None
    problems: tuple[Problem, ...]


def check_outside(corpus: Corpus, shards: Sequence[int]) -> list[Problem]:
    """Check files and row indexes of some shards: presence, sizes, the indexes' checksums, counts and bounds.

    No row is decoded. At a URL many are asked for at a time.
    """
    if corpus.folder.asks_cheaply:
        found = [_check_outside(corpus, shard) for shard in shards]
    else:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            found = list(pool.map(partial(_check_outside, corpus), shards))
    return [problem for problems in found for problem in problems]


def check_file(corpus: Corpus, file: FileInfo, shard: int | None) -> Problem | None:
    """Check size and checksum of a file; None when nothing is wrong."""
    path = corpus.folder.at(file.name)
    try:
        if file.checksum is None:
            corpus.folder.check_size(file.name, file.bytes)
            return None
        found = corpus.folder.checksum(file.name, file.bytes)
    except TokenyardError as e:
        return _problem(corpus, str(e), file.name, shard)
    if file.checksum == found:
        return None
    message = f"{path}: its checksum is {found}, the manifest says {file.checksum}; restore this file"
    return _problem(corpus, message, file.name, shard)


def check_run(shared: tuple[Corpus, frozenset[int]], run: Run) -> Outcome:
    """Check the checksums of the files of a run's shards, and decode its rows; not of shards named as unreadable."""
    corpus, unreadable = shared
    problems = [
        problem
        for shard in range(run.first, run.end)
        if shard not in unreadable
        for file in corpus.manifest.shards[shard].files
        if (problem := check_file(corpus, file, shard)) is not None
    ]
    found = BlockLeaves(corpus.schema.fields, run.start, run.stop)
    for shard, start, stop in parts_of(corpus, run.start, run.stop):
        if shard in unreadable:
            found.lost(start, stop)
        else:
            problems += _read(corpus, shard, start, stop, found)
    blocks, leaves = found.finish()
    return Outcome(blocks=blocks, leaves=leaves, problems=tuple(problems))


def parts_of(corpus: Corpus, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The shards that have rows among ``start`` .. ``stop``, each with the first and the end of these."""
    begins = corpus.shard_row_starts
    shard = int(begins.searchsorted(start, side="right")) - 1
    while start < stop:
        end = min(stop, int(begins[shard + 1]))
        if start < end:
            yield shard, start, end
        start, shard = end, shard + 1


def shard_at(corpus: Corpus, row: int) -> tuple[int, str]:
    """The number and the path of the shard that holds a row."""
    shard = int(corpus.shard_row_starts.searchsorted(row, side="right")) - 1
    return shard, str(corpus.folder.at(corpus.manifest.shards[shard].name))


def _check_outside(corpus: Corpus, shard: int) -> list[Problem]:
    try:
        corpus.check_shard(shard)
        if not corpus.folder.asks_cheaply:
            for file in corpus.manifest.shards[shard].files:
                corpus.folder.check_size(file.name, file.bytes)
        return []
    except TokenyardError as e:
        error = str(e)
    info = corpus.manifest.shards[shard]
    files = [*info.files, *([info.index] if info.index else [])]
    problems = []
    for file in files:
        try:
            if (size := corpus.folder.size(file.name)) != file.bytes:
                message = (
                    f"{corpus.folder.at(file.name)}: {size} bytes, expected {file.bytes}; the file was cut or "
                    "replaced, restore it"
                )
                problems.append(_problem(corpus, message, file.name, shard))
        except TokenyardError as e:
            problems.append(_problem(corpus, str(e), file.name, shard))
    name = next((f.name for f in reversed(files) if str(corpus.folder.at(f.name)) in error), info.name)
    return problems or [_problem(corpus, error, name, shard)]


def _read(corpus: Corpus, shard: int, start: int, stop: int, leaves: BlockLeaves) -> list[Problem]:
    """Digest rows of one shard, and say what is wrong with them."""
    vocab_size, row = corpus.schema.vocab_size, start
    problems: list[Problem] = []
    try:
        for batch in corpus.batches(start, stop):
            _check_ids(batch, row)
            leaves.add(batch, row)
            if vocab_size is not None and not problems:
                problems += _past_vocabulary(corpus, batch, row, vocab_size)
            row += len(batch)
    except TokenyardError as e:
        leaves.lost(row, stop)
        name = corpus.manifest.shards[shard].name
        for first, end, why in _unreadable(corpus, shard, row, stop, e):
            message = f"rows {first} .. {end - 1} can't be read: {why}"
            problems.append(Problem(message=message, file=name, shard=shard, rows=(first, end - 1)))
    return problems


def _check_ids(batch: RowBatch, first_row: int) -> None:
    check_ids(batch.tokens, batch.offsets, lambda row: f"row {first_row + row}")


def _past_vocabulary(corpus: Corpus, batch: RowBatch, first_row: int, vocab_size: int) -> list[Problem]:
    found = first_id_from(vocab_size, batch)
    if found is None:
        return []
    row = first_row + found[0]
    shard, path = shard_at(corpus, row)
    message = (
        f"{path}: row {row} holds the id {found[1]}, but the schema's vocab_size is {vocab_size}: the ids are another "
        "tokenizer's, or the schema is wrong"
    )
    return [Problem(message=message, file=corpus.manifest.shards[shard].name, shard=shard, rows=(row, row))]


def _unreadable(
    corpus: Corpus, shard: int, start: int, stop: int, error: TokenyardError
) -> Iterator[tuple[int, int, TokenyardError]]:
    """The runs among rows ``start`` .. ``stop`` of a shard that can't be read, each with the reason."""

    def attempt(first: int, end: int) -> TokenyardError | None:
        try:
            row = first
            for batch in corpus.batches(first, end):
                _check_ids(batch, row)
                row += len(batch)
        except TokenyardError as e:
            return e
        return None

    try:
        blocks = corpus.shard_block_rows(shard)
    except TokenyardError as e:  # it can't be opened
        yield start, stop, e
        return
    cuts = [start, *blocks[(blocks > start) & (blocks < stop)].tolist(), stop]
    told = 0
    for first, end in pairwise(cuts):
        why = attempt(first, end)
        if why is None:
            continue
        for found in narrowed(attempt, first, end, why):
            if told == _MAX_TOLD:
                yield found[0], stop, found[2]
                return
            yield found
            told += 1
    if not told:  # it could be read the second time
        yield start, stop, error


def narrowed(
    attempt: Callable[[int, int], TokenyardError | None], start: int, stop: int, why: TokenyardError
) -> Iterator[tuple[int, int, TokenyardError]]:
    """Where rows fail: halved until both halves say the same, as they do where rows are decoded together."""
    middle = (start + stop) // 2
    halves = [] if stop - start == 1 else [(a, b, attempt(a, b)) for a, b in ((start, middle), (middle, stop))]
    if not any(e for *_, e in halves) or len({str(e) for *_, e in halves}) == 1:
        yield start, stop, why
        return
    for first, end, e in halves:
        if e is not None:
            yield from narrowed(attempt, first, end, e)


def _problem(corpus: Corpus, message: str, name: str, shard: int | None) -> Problem:
    """A problem of a whole file."""
    rows = None
    if shard is not None:
        first, end = corpus.shard_row_starts[shard : shard + 2].tolist()
        rows = (first, end - 1) if end > first else None
    return Problem(message=message, file=name, shard=shard, rows=rows)
