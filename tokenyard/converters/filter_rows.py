"""Filter a corpus: keep the rows of some lengths, and those whose fields are as wanted."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.converters.conditions import Condition, parse_condition
from tokenyard.converters.job import OnProgress, total_counts
from tokenyard.converters.picking import PickSettings, plan_picks
from tokenyard.converters.run import Job, run_job
from tokenyard.converters.workers import ExecutorName
from tokenyard.corpus import Corpus
from tokenyard.errors import ConfigError
from tokenyard.rows import RowBatch


@dataclass(frozen=True, kw_only=True)
class FilterReport:
    """What filtering did. ``failed``: rows that failed each condition; one row may fail several."""

    source: str
    destination: str
    format: str
    num_rows: int
    num_tokens: int
    num_dropped_rows: int
    num_dropped_tokens: int
    failed: Mapping[str, int]
    digest: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class FilterSettings(PickSettings):
    """What ``filter_rows`` is asked for; see there. Raises ConfigError."""

    min_tokens: int | None = None
    max_tokens: int | None = None
    where: Sequence[str] = ()

    def __post_init__(self) -> None:
        low, high = self.min_tokens or 0, self.max_tokens
        if low < 0 or (high is not None and high < low):
            raise ConfigError(
                f"min_tokens {self.min_tokens}, max_tokens {high}: expected whole numbers from 0 on, the first not "
                "above the second"
            )
        if isinstance(self.where, str):
            raise ConfigError(f"where: expected a list of conditions; found {self.where!r}, so put it in brackets")
        if self.min_tokens is None and high is None and not self.where:
            raise ConfigError(
                "nothing to filter by: give min_tokens, max_tokens or where (--min-tokens, --max-tokens, --where)"
            )


def filter_rows(
    src: str | os.PathLike[str] | Corpus,
    dst: str | os.PathLike[str],
    *,
    min_tokens: int | None = None,
    max_tokens: int | None = None,
    where: Sequence[str] = (),
    format: str | None = None,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    finish: bool = False,
    read: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> FilterReport:
    """Write the rows of ``src`` for which all conditions hold, in order, to ``dst``.

    ``min_tokens`` and ``max_tokens``: the least and the most tokens of a row, both included. ``where``: conditions on
    fields, as ``"lang == en"``, ``"score >= 0.5"``, ``"source in [web, books]"``, ``"url is not null"``; for a null no
    comparison holds. ``format``: the source's unless given. The rows and bytes written don't depend on ``num_workers``.
    A job that was interrupted goes on, and ``finish`` publishes what parts have done, as in ``convert``.

    Raises ConfigError that says what is wrong with a condition, VerificationError (the source isn't what its manifest
    promises, or what was kept read back differently), DataError, SchemaError, DestinationExistsError, StorageError.
    """
    begun = time.monotonic()
    settings = FilterSettings(
        min_tokens=min_tokens, max_tokens=max_tokens, where=where, format=format, read=read, options=options
    )
    source = settings.open(src)
    manifest, outputs = run_job(
        _planned(source, settings),
        dst,
        num_workers=num_workers,
        executor=executor,
        address=address,
        overwrite=overwrite,
        finish=finish,
        on_progress=on_progress,
    )
    assert manifest.digests is not None
    failed = {n.removeprefix("failed:"): c for n, c in total_counts(outputs).items() if n.startswith("failed:")}
    return FilterReport(
        source=str(source.path),
        destination=os.fspath(dst),
        format=manifest.format,
        num_rows=manifest.num_rows,
        num_tokens=manifest.num_tokens,
        num_dropped_rows=len(source) - manifest.num_rows,
        num_dropped_tokens=source.num_tokens - manifest.num_tokens,
        failed=failed,
        digest=manifest.digests.tokens,
        seconds=time.monotonic() - begun,
    )


def plan_filter(src: str | os.PathLike[str] | Corpus, **settings: Any) -> Job[range]:
    """The job that ``filter_rows`` does with these settings."""
    found = FilterSettings.of(**settings)
    return _planned(found.open(src), found)


@dataclass(frozen=True, kw_only=True)
class _Conditions:
    """Rows for which all of some conditions hold."""

    min_tokens: int | None
    max_tokens: int | None
    where: Sequence[Condition]

    def keep(self, batch: RowBatch, first_row: int, counts: dict[str, int]) -> NDArray[np.bool_]:
        del first_row
        lengths, kept = batch.lengths, np.ones(len(batch), np.bool_)
        found = {condition.text: condition.holds(batch.fields[condition.field]) for condition in self.where}
        if self.min_tokens is not None:
            found[f"min_tokens {self.min_tokens}"] = lengths >= self.min_tokens
        if self.max_tokens is not None:
            found[f"max_tokens {self.max_tokens}"] = lengths <= self.max_tokens
        for text, holds in found.items():
            kept &= holds
            counts[f"failed:{text}"] = counts.get(f"failed:{text}", 0) + int((~holds).sum())
        return kept


def _planned(source: Corpus, settings: FilterSettings) -> Job[range]:
    where = [parse_condition(text, source.schema.fields) for text in settings.where]
    choice = _Conditions(min_tokens=settings.min_tokens, max_tokens=settings.max_tokens, where=where)
    said = {
        "min_tokens": settings.min_tokens,
        "max_tokens": settings.max_tokens,
        "where": [condition.text for condition in where],
    }
    return plan_picks("filter", source, choice, settings, said)
