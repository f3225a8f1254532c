"""Grades: how far a figure is from the best one of the same run. They say nothing about another machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokenyard.bench.metrics import METRICS, Figure

NAMES = ("best", "good", "fair", "poor")
#: The least share of the best that makes a grade; sizes differ less than speeds do.
SPEED_SHARES = (0.8, 0.4, 0.1)
SIZE_SHARES = (0.95, 0.75, 0.5)
LATENCY_SHARES = (0.5, 0.1, 0.01)

RULE = (
    "Grades compare with the best of this run. Shuffled read: best from {} of it on, good from {}, fair from {}. "
    "Compression: the smallest size as a share of one's own: best from {}, good from {}, fair from {}. Random access: "
    "the lowest median latency as a share of one's own: best from {}, good from {}, fair from {}. Less is poor."
).format(*(f"{share:.0%}" for share in (*SPEED_SHARES, *SIZE_SHARES, *LATENCY_SHARES)))


@dataclass(frozen=True, kw_only=True)
class Grades:
    """One of NAMES for each, or None where it wasn't measured."""

    reading: str | None
    compression: str | None
    random_access: str | None


def speed_key(figures: Mapping[str, Figure]) -> str:
    """The figure that stands for shuffled reading: the loader's, or where there is no torch the gather's."""
    return "loader" if "loader" in figures else "gather"


def grade_all(found: Mapping[str, Mapping[str, Figure]]) -> dict[str, Grades]:
    """Grade the figures of each variant, by its name."""
    return {
        name: Grades(
            reading=_grade(speed_key(figures), name, found, SPEED_SHARES),
            compression=_grade("ratio", name, found, SIZE_SHARES),
            random_access=_grade("row_p50", name, found, LATENCY_SHARES),
        )
        for name, figures in found.items()
    }


def share_of_best(key: str, name: str, found: Mapping[str, Mapping[str, Figure]]) -> float | None:
    """A median as a share of the best, 0 to 1; None where it wasn't measured."""
    if key not in found[name]:
        return None
    own = found[name][key].median
    medians = [figures[key].median for figures in found.values() if key in figures]
    if METRICS[key].more_is_better:
        return own / max(medians) if max(medians) else None
    return min(medians) / own if own else None


def _grade(
    key: str, name: str, found: Mapping[str, Mapping[str, Figure]], shares: tuple[float, float, float]
) -> str | None:
    share = share_of_best(key, name, found)
    if share is None:
        return None
    return NAMES[sum(share < least for least in shares)]
