"""Two corpora compared: where their digests differ, the first row that does, and the shards it lies in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tokenyard.converters.verify.full import Checked
from tokenyard.converters.verify.report import Problem
from tokenyard.converters.verify.shards import shard_at
from tokenyard.corpus import Corpus
from tokenyard.digest import DIGEST_BLOCK_ROWS
from tokenyard.rows import RowBatch


def compare(corpus: Corpus, mine: Checked, other: Corpus, theirs: Checked) -> list[Problem]:
    """How the rows of two corpora differ, block by block; empty where those that can be read are equal."""
    names = ["tokens", *sorted(corpus.schema.fields.keys() & other.schema.fields.keys())]
    columns = {name: (mine.leaves(name), theirs.leaves(name)) for name in names}
    blocks = min(len(pair[0]) for pair in columns.values()), min(len(pair[1]) for pair in columns.values())
    differing = [
        block
        for block in range(min(blocks))
        if any(a[block] is not None and b[block] is not None and a[block] != b[block] for a, b in columns.values())
    ]
    problems = [Problem(message=text, is_damage=False) for text in differing_fields(corpus, other)]
    first = next((found for block in differing if (found := _first_row(corpus, other, block, names))), None)
    if first is not None:
        row, what = first
        shard, path = shard_at(corpus, row)
        message = (
            f"row {row} is the first that differs: {what}. Here it is in {path}, there in {shard_at(other, row)[1]}; "
            f"{len(differing)} of {min(blocks)} blocks of {DIGEST_BLOCK_ROWS} rows differ"
        )
        name = corpus.manifest.shards[shard].name
        problems.append(Problem(message=message, file=name, shard=shard, rows=(row, row), is_damage=False))
    if len(other) != len(corpus):
        shorter, more = sorted((len(corpus), len(other)))
        longer = corpus if len(corpus) == more else other
        message = (
            f"{len(corpus)} rows here, {len(other)} rows there; what is more begins with row {shorter}, in "
            f"{shard_at(longer, shorter)[1]}"
        )
        problems.append(Problem(message=message, is_damage=False))
    return [
        Problem(
            message=f"differs from {other.path}: {p.message}", file=p.file, shard=p.shard, rows=p.rows, is_damage=False
        )
        for p in problems
    ]


def differing_fields(corpus: Corpus, other: Corpus) -> list[str]:
    """In words, the fields that one alone has, or that are of other types."""
    mine, theirs = corpus.schema.fields, other.schema.fields
    found = []
    for name in sorted({*mine, *theirs}):
        here, there = mine.get(name), theirs.get(name)
        if here is None or there is None:
            found.append(f"field {name!r} is absent {'here' if here is None else 'there'}")
        elif (here.name, here.is_list) != (there.name, there.is_list):
            found.append(f"field {name!r} is {here} here, {there} there")
    return found


def _first_row(corpus: Corpus, other: Corpus, block: int, names: list[str]) -> tuple[int, str] | None:
    """The first row of a digest block that both have and that differs, and how."""
    start = block * DIGEST_BLOCK_ROWS
    stop = min(start + DIGEST_BLOCK_ROWS, len(corpus), len(other))
    if start >= stop:
        return None
    mine, theirs = (RowBatch.concat(list(c.batches(start, stop))) for c in (corpus, other))
    for i in range(stop - start):
        a, b = mine.row(i), theirs.row(i)
        for name in names:
            if (what := difference(name, a[name], b[name])) is not None:
                return start + i, what
    return None


def difference(name: str, mine: Any, theirs: Any) -> str | None:
    """How two values of one row differ, in words; None where they are equal."""
    is_list = isinstance(mine, np.ndarray)
    if is_list != isinstance(theirs, np.ndarray) or mine is None or theirs is None or not is_list:
        nan = isinstance(mine, float) and isinstance(theirs, float) and math.isnan(mine) and math.isnan(theirs)
        return None if nan or mine == theirs else f"field {name!r} is {mine!r:.80} here, {theirs!r:.80} there"
    what = "token" if name == "tokens" else f"item of {name!r}"
    common = min(len(mine), len(theirs))
    same = mine[:common] == theirs[:common]
    if mine.dtype.kind == "f":
        same |= np.isnan(mine[:common]) & np.isnan(theirs[:common])
    if not same.all():
        at = int(np.argmin(same))
        return f"{what} {at} of it is {mine[at]} here, {theirs[at]} there"
    return None if len(mine) == len(theirs) else f"it has {len(mine)} {what}s here, {len(theirs)} there"
