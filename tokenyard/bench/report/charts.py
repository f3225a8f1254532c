"""The sections with pictures."""

from __future__ import annotations

from collections.abc import Sequence

from tokenyard.bench.grades import speed_key
from tokenyard.bench.metrics import METRICS
from tokenyard.bench.report.parts import anchor, is_chosen
from tokenyard.bench.report.ranges import Range, ranges
from tokenyard.bench.report.scatter import Point, scatter
from tokenyard.bench.report.tables import peer_rates, titles, told
from tokenyard.bench.results import BenchReport, PeerResult, VariantResult
from tokenyard.display.bars import Bar, BarRow, bars, legend
from tokenyard.display.html import element, text
from tokenyard.display.parts import section
from tokenyard.display.quantities import digits, power_with_unit, with_unit

#: Formats with a color of their own.
_FORMATS = ("npy", "mds", "webdataset", "parquet", "jsonl", "csv")


def speed_chart(found: BenchReport) -> str:
    """Bars of shuffled reading, warm and cold."""
    key = speed_key(found.variants[0].figures)
    cold = f"{key}_cold"
    has_cold = any(cold in result.figures for result in found.variants)
    rows = [
        _bar_row(found, result, [(key, "first", ""), (cold, "second", " cold")])
        for result in _ranked(found.variants, key)
    ]
    entries = [("first", "files in the page cache"), *([("second", "cold: read from the disk")] if has_cold else [])]
    if found.settings["rounds"] > 1:
        entries.append(("spread", "from the slowest round to the fastest"))
    what = "training batches, block shuffle" if key == "loader" else "gathers of shuffled rows"
    return section(
        "Shuffled read",
        f"Millions of tokens a second into {what}. Longer is better.",
        legend(entries),
        bars("Shuffled read by format", rows),
    )


def size_chart(found: BenchReport) -> str:
    """Bars of sizes, beside the bytes in memory."""
    ranked = sorted(found.variants, key=lambda result: result.figures["size"].median)
    rows = [
        BarRow(
            name=result.variant.title,
            href=anchor(found, result.variant.spec),
            bars=[Bar(value=result.figures["size"].median, label=told(result, "size"))],
            is_chosen=is_chosen(found, result),
        )
        for result in ranked
    ]
    raw = with_unit(found.sample.raw_bytes, "bytes")
    return section(
        "Size on disk",
        "All files of the corpus. Shorter is better.",
        legend([("mark", f"as in memory: {raw}")]),
        bars("Size by format", rows, mark=(found.sample.raw_bytes, f"in memory: {raw}")),
    )


def trade_off(found: BenchReport) -> str:
    """Speed over compression."""
    key = speed_key(found.variants[0].figures)
    points = [
        Point(
            name=result.variant.title,
            x=result.figures["ratio"].median,
            y=result.figures[key].median,
            paint=result.variant.format if result.variant.format in _FORMATS else "other",
            href=anchor(found, result.variant.spec),
            is_chosen=is_chosen(found, result),
        )
        for result in found.variants
        if result.figures[key].median > 0
    ]
    description = "; ".join(f"{p.name}: {p.x:.2f}x compression, {digits(p.y)} Mtok/s" for p in points)
    pictures = [
        element(
            "div",
            scatter(
                "Shuffled read over compression",
                description,
                points,
                x_title="compression ratio →",
                y_title="↑ shuffled read, Mtok/s",
                width=width,
                height=height,
            ),
            class_=class_,
        )
        for class_, width, height in (("wide", 470, 380), ("narrow", 340, 340))
    ]
    return section("Speed against size", "Right and above is better; each line is ten times the one below.", *pictures)


def row_chart(found: BenchReport) -> str:
    """Latency of a single row."""
    measured = [result for result in found.variants if (result.median("row_p50") or 0) > 0]
    rows = [
        Range(
            name=result.variant.title,
            low=result.figures["row_p50"].median,
            high=max(result.figures["row_p99"].median, result.figures["row_p50"].median),
            low_label=told(result, "row_p50"),
            high_label=told(result, "row_p99"),
            href=anchor(found, result.variant.spec),
            is_chosen=is_chosen(found, result),
        )
        for result in _ranked(measured, "row_p50")
    ]
    return section(
        "One row at random",
        "Time until a row is there, no decoded block kept. To the left is better; each line is ten times the one "
        "before.",
        legend([("dot", "median"), ("open", "99 of 100 rows are quicker")]),
        ranges("Latency of one row by format", rows, lambda power: power_with_unit(power, "µs")),
    )


def peers_chart(found: BenchReport) -> str:
    """Other libraries beside tokenyard, on the same shards."""
    if not found.peers:
        return ""
    parts = []
    for work, title in (("training", "Shuffled training batches"), ("reading", "Everything in order")):
        rows = [row for peer in found.peers if peer.work == work for row in [_peer_row(found, peer)] if row is not None]
        if rows:
            parts += [element("h3", text(title)), bars(title, rows)]
    problems = [peer for peer in found.peers if peer.problem]
    if problems:
        names = titles(found)
        items = (
            element("li", text(f"{peer.name} on {names[peer.variant]}: {(peer.problem or '').splitlines()[0]}"))
            for peer in problems
        )
        parts += [element("h3", "Not measured"), element("ul", *items, class_="notes")]
    return section(
        "Other libraries, the same shards",
        "Millions of tokens a second in one process without threads or workers; training batches hold input_ids and "
        "labels as int64 tensors. Start-up before a first batch is not counted for the others, but is for tokenyard.",
        legend([("first", "tokenyard"), ("peer", "the other library")]),
        *parts,
    )


def _bar_row(found: BenchReport, result: VariantResult, keys: Sequence[tuple[str, str, str]]) -> BarRow:
    drawn = []
    for key, paint, said in keys:
        figure = result.figures.get(key)
        if figure is not None:
            label = told(result, key) if not said else f"{digits(figure.median)}{said}"
            drawn.append(Bar(value=figure.median, low=figure.low, high=figure.high, label=label, paint=paint))
    return BarRow(
        name=result.variant.title,
        href=anchor(found, result.variant.spec),
        bars=drawn,
        is_chosen=is_chosen(found, result),
    )


def _peer_row(found: BenchReport, peer: PeerResult) -> BarRow | None:
    rates = peer_rates(found, peer)
    if rates is None:
        return None
    its, ours = rates
    drawn = [] if ours is None else [Bar(value=ours, label=f"{digits(ours)} ({digits(ours / its)}x)")]
    drawn.append(Bar(value=its, label=digits(its), paint="peer"))
    number = found.peers.index(peer)
    note = titles(found)[peer.variant]
    return BarRow(name=peer.name, note=f"on {note}", href=f"#cmd-peer-{number}", bars=drawn)


def _ranked(results: Sequence[VariantResult], key: str) -> list[VariantResult]:
    """The best first; what wasn't measured last."""
    sign = -1 if METRICS[key].more_is_better else 1
    return sorted(results, key=lambda result: sign * (result.median(key) or 0))
