"""Runs that are looked at, and what their lines say."""

import re
from pathlib import Path

from tests.runs import settings, write_corpora
from tokenyard.config import TrainConfig, load_config
from tokenyard.preflight import Line, PreflightReport, preflight

__all__ = ["look", "of_corpus", "settings", "the_line", "write_corpora"]


def look(config: TrainConfig, **asked) -> PreflightReport:
    """A preflight at two ranks, unless others are asked for."""
    return preflight(config, **{"ranks": 2, **asked})


def of_corpus(path: Path, *, batch: int = 2, sample: dict | None = None, **sections) -> TrainConfig:
    """Settings of a run over one corpus, rows as they are unless told otherwise."""
    return load_config(
        {
            "data": {"path": str(path), "sample": sample or {"mode": "rows"}, **sections.pop("data", {})},
            "order": {"global_batch_size": batch, "block_samples": 4, **sections.pop("order", {})},
            "loader": {"num_threads": 0, **sections.pop("loader", {})},
        }
    )


def the_line(report: PreflightReport, check: str, status: str, *, match: str = "", source: str | None = None) -> Line:
    """The one line of a check, which has this status, and whose words match."""
    (line,) = [line for line in report.lines if (line.check, line.source) == (check, source)]
    assert line.status == status, line
    assert re.search(match, f"{line.found} -> {line.way_out}"), line
    return line
