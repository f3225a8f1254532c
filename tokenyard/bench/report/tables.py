"""The tables of a report as texts: for the terminal, and for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenyard.bench.grades import speed_key
from tokenyard.bench.quantities import short
from tokenyard.bench.results import BenchReport, PeerResult, VariantResult
from tokenyard.display.quantities import digits, with_unit

#: What a format is good for that no clock tells.
_WORLDS = {
    "mds": "mosaicml-streaming, llm-foundry",
    "webdataset": "webdataset, tar tools",
    "parquet": "DuckDB, pandas, datasets",
    "jsonl": "people and small tools",
    "csv": "spreadsheets",
}
_ABSENT = "–"

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def comparison(found: BenchReport) -> Table:
    """The comparison: what people choose by, with grades."""
    header = ("format", "shuffled read", "grade", "compression", "grade", "one row", "grade", "recommended for")
    return header, [_comparison_line(found, result) for result in found.variants]


def _comparison_line(found: BenchReport, result: VariantResult) -> tuple[str, ...]:
    grades = found.grades[result.variant.spec]
    return (
        result.variant.title,
        told(result, speed_key(result.figures)),
        grades.reading or _ABSENT,
        told(result, "ratio"),
        grades.compression or _ABSENT,
        told(result, "row_p50"),
        grades.random_access or _ABSENT,
        recommended(found, result),
    )


def recommended(found: BenchReport, result: VariantResult) -> str:
    """What this variant was chosen for, and whose format it is."""
    chosen = [choice.purpose.lower() for choice in found.choices if choice.variant == result.variant.spec]
    world = _WORLDS.get(result.variant.format)
    return "; ".join([*chosen, *([f"for {world}"] if world else [])]) or _ABSENT


def told(result: VariantResult, key: str) -> str:
    """The median of a figure with its unit."""
    median = result.median(key)
    return _ABSENT if median is None else short(key, median)


def told_spread(result: VariantResult, key: str) -> str:
    """The smallest and the largest value of a figure; the unit once where it is that of both."""
    figure = result.figures.get(key)
    if figure is None:
        return ""
    low, high = short(key, figure.low), short(key, figure.high)
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"


def peer_lines(found: BenchReport) -> Table:
    """Other libraries, and tokenyard's figure for the same work on the same shards."""
    header = ("library", "shards", "work", "its rate", "tokenyard's", "ratio")
    return header, [_peer_line(found, peer) for peer in found.peers]


def _peer_line(found: BenchReport, peer: PeerResult) -> tuple[str, ...]:
    name = peer.name if peer.version is None else f"{peer.name} ({peer.package} {peer.version})"
    if peer.name == peer.package:
        name = f"{peer.package} {peer.version or ''}".strip()
    shards = titles(found)[peer.variant]
    rates = peer_rates(found, peer)
    if rates is None:
        problem = (peer.problem or "nothing was measured").splitlines()[0]
        return name, shards, peer.work, problem, _ABSENT, _ABSENT
    its, ours = rates
    ratio = _ABSENT if ours is None else f"{digits(ours / its)}x"
    return name, shards, peer.work, f"{digits(its)} Mtok/s", _rate(ours), ratio


def peer_rates(found: BenchReport, peer: PeerResult) -> tuple[float, float | None] | None:
    """A peer's rate and ours for the same work, Mtok/s: shuffled in one thread, or in order. None: not measured."""
    key, own = ("loader", "inline") if peer.work == "training" else ("sequential", "sequential")
    if key not in peer.figures:
        return None
    result = next(result for result in found.variants if result.variant.spec == peer.variant)
    return peer.figures[key].median, result.median(own)


def _rate(value: float | None) -> str:
    return _ABSENT if value is None else f"{digits(value)} Mtok/s"


def titles(found: BenchReport) -> dict[str, str]:
    """What people call each variant, by its name."""
    return {result.variant.spec: result.variant.title for result in found.variants}


def told_corpus(found: BenchReport) -> Mapping[str, Any]:
    """What was measured."""
    sample = found.sample
    rows = f"{sample.num_rows:,} rows, {sample.num_tokens:,} tokens"
    if not sample.is_whole:
        rows += f", a sample of {sample.of_rows:,} rows, {sample.of_tokens:,} tokens"
    return {
        "source": sample.source + (f" ({sample.source_format})" if sample.source_format else ""),
        "measured": rows,
        "in memory": with_unit(sample.raw_bytes, "bytes") + f", {sample.token_dtype}",
        "layout": sample.layout + (f", rows of {sample.row_length}" if sample.row_length else ""),
        "samples": "whole rows" if sample.mode == "rows" else f"windows of {digits(found.tokens_per_sample or 0)}",
        "digest": f"{sample.digest}, read back from every format",
    }


def told_machine(found: BenchReport) -> Mapping[str, Any]:
    """What it was measured on."""
    machine = found.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return {
        "processor": f"{machine['cpu']}, {machine['cores']} cores",
        "memory": with_unit(machine["memory_bytes"], "bytes") if machine["memory_bytes"] else None,
        "file system": machine["file_system"],
        "disk": f"{digits(found.disk.median)} MB/s, read in order, cold" if found.disk else None,
        "system": machine["system"],
        "software": f"Python {machine['python']}, {versions}",
    }
