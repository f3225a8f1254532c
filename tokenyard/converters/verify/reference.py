"""A corpus read once more with the official library of its format, and compared token by token, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenyard.converters.executor import run_tasks
from tokenyard.converters.verify import official_library
from tokenyard.converters.verify.meter import Meter
from tokenyard.converters.verify.official_library import Rows, Values
from tokenyard.converters.verify.report import Problem
from tokenyard.corpus import Corpus
from tokenyard.errors import TokenyardError
from tokenyard.formats.base import iter_pieces
from tokenyard.rows import Array, Column, Offsets, RowBatch
from tokenyard.schema import FieldType

#: Bytes of shards that one process reads: importing a library can take ten seconds.
_TASK_BYTES = 1 << 30
#: Tokens compared at once, where tokenyard chooses.
_TOKENS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What comparing some shards gave; ``uncompared``: fields that the library gives as something else, and as what."""

    problems: tuple[Problem, ...]
    uncompared: dict[str, str]


def check_python(format: str, python: str) -> str:
    """The official library of a format, and its version, in the environment of an interpreter.

    Raises ConfigError, MissingDependencyError, VerificationError.
    """
    return official_library.ask_version(format, python)


def compare_with_reference(
    corpus: Corpus, python: str, skipped: Sequence[int], num_workers: int, meter: Meter
) -> tuple[list[Problem], list[str]]:
    """Where the official library reads other rows than tokenyard, and notes on what could not be compared.

    ``skipped``: shards known to be damaged. Of each shard the first difference is told. Raises as ``check_python``.
    """
    left_out = frozenset(skipped)
    tasks = _tasks(corpus, [i for i in range(len(corpus.manifest.shards)) if i not in left_out])
    found: dict[int, Compared] = {}
    for number, compared in run_tasks(_compare_shards, (corpus, python), tasks, num_workers):
        found[number] = compared
        shards = np.array(tasks[number])
        begins, tokens = corpus.shard_row_starts, corpus.shard_token_starts
        meter.add(int((begins[shards + 1] - begins[shards]).sum()), int((tokens[shards + 1] - tokens[shards]).sum()))
    uncompared = {name: what for i in range(len(tasks)) for name, what in found[i].uncompared.items()}
    notes = [f"field {name!r} was not compared: the library gives {what}" for name, what in sorted(uncompared.items())]
    if left_out:
        notes.append(f"{len(left_out)} damaged shards were not read with the official library")
    return [p for i in range(len(tasks)) for p in found[i].problems], notes


def _tasks(corpus: Corpus, shards: Sequence[int]) -> list[list[int]]:
    tasks: list[list[int]] = []
    size = _TASK_BYTES
    for shard in shards:
        if size >= _TASK_BYTES:
            tasks.append([])
            size = 0
        tasks[-1].append(shard)
        size += corpus.manifest.shards[shard].num_bytes
    return tasks


def _compare_shards(shared: tuple[Corpus, str], shards: Sequence[int]) -> Compared:
    corpus, python = shared
    fields = {name: str(type) for name, type in corpus.schema.fields.items()}
    told = [_job_of(corpus, shard) for shard in shards]
    problems: dict[int, Problem] = {}
    uncompared: dict[str, str] = {}
    row = {shard: int(corpus.shard_row_starts[shard]) for shard in shards}
    for message in official_library.read(corpus.format, python, corpus.folder.path, fields, told):
        shard, end = message.shard, int(corpus.shard_row_starts[message.shard + 1])
        if shard in problems:
            continue
        if isinstance(message, Rows):
            uncompared |= {n: c for n, c in message.columns.items() if isinstance(c, str)}
            stop = min(row[shard] + message.count, end)
            difference = _difference(corpus, row[shard], stop, message)
            row[shard] += message.count
            if difference is not None:
                problems[shard] = _problem(corpus, shard, *difference)
            elif row[shard] > end:
                problems[shard] = _problem(corpus, shard, end - 1, "the library goes on after the last row")
        elif message.error is not None:
            problems[shard] = _problem(corpus, shard, None, f"the library can't read it: {message.error}")
        elif row[shard] < end:
            problems[shard] = _problem(corpus, shard, row[shard], "the library ends before this row")
    return Compared(problems=tuple(problems.values()), uncompared=uncompared)


def _job_of(corpus: Corpus, shard: int) -> dict[str, Any]:
    info = corpus.manifest.shards[shard]
    job: dict[str, Any] = {"number": shard, "files": [f.name for f in info.files], "meta": dict(info.meta)}
    if corpus.format == "npy":
        index = corpus.shard_index(shard)
        if "dtype" in index.meta:
            job["meta"] = dict(index.meta)
        cuts = [0, *(end for _, end in iter_pieces(index.offsets, 0, index.num_rows, _TOKENS))]
        job["rows"] = np.diff(cuts).tolist()
        job["cuts"] = {"tokens": index.offsets[cuts].tolist()}
        for name in corpus.schema.fields:
            offsets = index.arrays.get(f"field:{name}:offsets")
            job["cuts"][name] = cuts if offsets is None else offsets[cuts].tolist()
    return job


def _difference(corpus: Corpus, start: int, stop: int, theirs: Rows) -> tuple[int, str] | None:
    """The first row among ``start`` .. ``stop`` that the library gives otherwise, and how."""
    if start >= stop:
        return None
    try:
        mine = RowBatch.concat(list(corpus.batches(start, stop)))
    except TokenyardError as e:
        return start, f"tokenyard can't read it: {e}"
    found = []
    for name, column in theirs.columns.items():
        if isinstance(column, str):
            if name == "tokens":
                return start, f"the library gives {column} as tokens"
            continue
        own = (
            Column(type=FieldType(mine.tokens.dtype.name, True), values=mine.tokens, offsets=mine.offsets)
            if name == "tokens"
            else mine.fields[name]
        )
        if (at := _first_other(own, column)) is not None:
            found.append((at[0], name, at[1]))
    if not found:
        return None
    row, name, what = min(found)
    return start + row, f"{name}: {what}"


def _first_other(own: Column, other: Values) -> tuple[int, str] | None:
    """The first row of a column that differs, and how."""
    num_rows = len(own)
    valid = np.ones(num_rows, bool) if own.valid is None else own.valid
    lengths = np.ones(num_rows, np.int64) if own.offsets is None else np.diff(own.offsets)
    values = own.values
    if other.valid is not None:
        values = values if own.offsets is not None else values[valid]
        lengths = np.where(valid, lengths, 0)
        common = min(num_rows, len(other.valid))
        if (wrong := valid[:common] != other.valid[:common]).any():
            row = int(np.argmax(wrong))
            return row, f"it is {'a value' if valid[row] else 'null'} here, by the library it is not"
    offsets: Offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = None
    if other.lengths is not None:
        common = min(num_rows, len(other.lengths))
        if (wrong := lengths[:common] != other.lengths[:common]).any():
            row = int(np.argmax(wrong))
            first = row, f"{lengths[row]} items here, {other.lengths[row]} by the library"
    count = min(len(values), len(other.items), int(offsets[first[0]]) if first else len(values))
    wrong = _not_equal(values[:count], other.items[:count])
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(offsets, at, side="right")) - 1
        place = f"item {at - int(offsets[row])} is " if own.offsets is not None else ""
        return row, f"{place}{values[at]} here, {other.items[at]} by the library"
    return first


def _not_equal(mine: Array, theirs: Array) -> Array:
    if mine.dtype.kind == "f" or theirs.dtype.kind == "f":
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        found: Array = (mine != theirs) & ~(np.isnan(mine) & np.isnan(theirs))
        return found
    if "u" in (mine.dtype.kind, theirs.dtype.kind) and mine.itemsize == theirs.itemsize == 8:
        mine, theirs = mine.astype(np.uint64), theirs.astype(np.uint64)
    return np.not_equal(mine, theirs)


def _problem(corpus: Corpus, shard: int, row: int | None, what: str) -> Problem:
    name = corpus.manifest.shards[shard].name
    place = f", row {row} ({row - int(corpus.shard_row_starts[shard])} of the shard)" if row is not None else ""
    return Problem(
        message=f"{corpus.folder.at(name)}{place}: differs from the official library: {what}",
        file=name,
        shard=shard,
        rows=None if row is None else (row, row),
    )
