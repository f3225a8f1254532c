"""Which format to take for what, by rules that are told with the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokenyard.bench.grades import share_of_best, speed_key
from tokenyard.bench.metrics import Figure
from tokenyard.bench.quantities import short

#: Speeds within this of the best are as good: another run could turn them round.
AS_FAST = 0.8
AS_SMALL = 0.95
AS_QUICK = 0.5
#: Formats that other tools query or open as tables.
TABLES = ("parquet", "jsonl", "csv")

Found = Mapping[str, Mapping[str, Figure]]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The variant to take for a ``purpose``, ``because`` of these figures, by this ``rule``."""

    purpose: str
    variant: str
    title: str
    because: str
    rule: str


def choose(
    found: Found, titles: Mapping[str, str], formats: Mapping[str, str], *, is_large: bool
) -> tuple[Choice, ...]:
    """The choices that the figures allow.

    Args:
        found: the figures of each variant, by its name.
        titles: what people call the variants.
        formats: the formats of the variants.
        is_large: whether the whole corpus is too large to stay in the page cache, so that cold figures decide.
    """
    if not found:
        return ()
    warm = speed_key(next(iter(found.values())))
    cold = warm + "_cold"
    use_cold = is_large and all(cold in figures for figures in found.values())
    reading = cold if use_cold else warm
    fastest = _within(found, reading, AS_FAST)
    train = _best(fastest, "ratio", found)
    smallest = _within(found, "ratio", AS_SMALL)
    store = _best(smallest, reading, found)
    where = "cold" if use_cold else "warm"
    into = "training batches" if warm == "loader" else "gathered rows (without torch no training batches are measured)"
    size_of_memory = "would not stay in" if is_large else "fits into"
    choices = [
        Choice(
            purpose="Train from this disk",
            variant=train,
            title=titles[train],
            because=f"{_told(reading, train, found)} into {into}, "
            f"{_share(reading, train, found)} of the fastest, at {_told('ratio', train, found)} compression",
            rule=f"the smallest of those that came within {1 - AS_FAST:.0%} of the fastest shuffled read, "
            f"page cache {where}, since the corpus {size_of_memory} half of this machine's memory",
        ),
        Choice(
            purpose="Store, or send over a network",
            variant=store,
            title=titles[store],
            because=f"{_told('ratio', store, found)} compression, and still {_told(reading, store, found)} shuffled",
            rule=f"the fastest shuffled read of those within {1 - AS_SMALL:.0%} of the smallest size",
        ),
    ]
    if tables := [name for name in found if formats[name] in TABLES]:
        query = _best(tables, "sequential", found)
        choices.append(
            Choice(
                purpose="Query, or exchange",
                variant=query,
                title=titles[query],
                because=f"{_told('sequential', query, found)} read in order, the fastest of the formats that table "
                "tools open",
                rule=f"the fastest sequential read of {', '.join(TABLES)}",
            )
        )
    if all("row_p50" in figures for figures in found.values()):
        quick = _within(found, "row_p50", AS_QUICK)
        single = _best(quick, "ratio", found)
        choices.append(
            Choice(
                purpose="Look up single rows",
                variant=single,
                title=titles[single],
                because=f"a row in {_told('row_p50', single, found)}, 99 of 100 within "
                f"{_told('row_p99', single, found)}",
                rule="the smallest of those whose median is within twice the lowest",
            )
        )
    return tuple(choices)


def _within(found: Found, key: str, least: float) -> list[str]:
    """The variants whose figure is at least this share of the best."""
    shares = {name: share_of_best(key, name, found) for name in found}
    return [name for name, share in shares.items() if share is not None and share >= least] or list(found)


def _best(names: list[str], key: str, found: Found) -> str:
    """The variant with the best figure; the first of those that share it."""
    return max(names, key=lambda name: share_of_best(key, name, found) or 0.0)


def _told(key: str, name: str, found: Found) -> str:
    return short(key, found[name][key].median)


def _share(key: str, name: str, found: Found) -> str:
    return f"{share_of_best(key, name, found) or 0:.0%}"
