"""How long rows are, and how large shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tokenyard.display.bars import Bar, BarRow, bars
from tokenyard.display.html import element, text
from tokenyard.display.parts import facts, section
from tokenyard.display.quantities import digits, percent, with_unit
from tokenyard.looking.contents import Contents
from tokenyard.looking.lengths import Bin, LengthCounts
from tokenyard.looking.page.sides import PAINTS, paints, sides

#: Columns of the picture of shards; of more shards each column is the largest of some neighbours.
_COLUMNS = 120
#: What is told of lengths, and the share of rows that are shorter.
QUANTILES = {"shortest": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "longest": 1.0}


def lengths_section(found: Sequence[Contents]) -> str:
    """The histogram of row lengths, and what it comes to."""
    return section(
        "Lengths of rows",
        "Rows by their number of tokens; each line holds lengths up to twice those of the one above.",
        paints(found),
        histogram("Rows by length", [(paint, c.lengths.counts) for paint, c in zip(PAINTS, found, strict=False)]),
        sides(found, lambda c: summary(c.lengths.counts) + facts({"counted": c.lengths.told})),
        id_="lengths",
    )


def histogram(caption: str, counts: Sequence[tuple[str, LengthCounts]]) -> str:
    """Counts of one or two corpora, with their paints, in bins of lengths; bars are shares, so that they compare."""
    binned = [{b.low: b for b in c.bins()} for _, c in counts]
    lows = sorted({low for b in binned for low in b})
    if not lows:
        return element("p", "There are none.", class_="sub")
    rows = []
    for low in lows:
        drawn = []
        for (paint, all_), of in zip(counts, binned, strict=True):
            number = of[low].count if low in of else 0
            share = number / max(1, len(all_))
            drawn.append(Bar(value=share, label=f"{number:,} ({percent(share)})", paint=paint))
        rows.append(BarRow(name=told_bin(next(of[low] for of in binned if low in of)), bars=drawn))
    return bars(caption, rows)


def told_bin(found: Bin) -> str:
    """A bin in words."""
    return f"{found.low:,}" if found.low == found.high else f"{found.low:,} – {found.high:,}"


def shards_section(found: Sequence[Contents]) -> str:
    """The sizes of shards in their order."""
    return section(
        "Sizes of shards",
        "Bytes of each shard, in their order.",
        sides(found, _shards),
        id_="shards",
    )


def _shards(found: Contents) -> str:
    sizes = found.shard_bytes
    if not len(sizes):
        return element("p", "There are no shards.", class_="sub")
    per = -(-len(sizes) // _COLUMNS)
    columns = [int(sizes[k : k + per].max()) for k in range(0, len(sizes), per)]
    rows, tokens = found.corpus.manifest.rows_of_shards, found.corpus.manifest.tokens_of_shards
    told = {
        "shards": f"{len(sizes):,}",
        "bytes": _spread([float(size) for size in sizes], lambda size: with_unit(size, "bytes")),
        "rows": _spread(rows.astype(float).tolist(), "{:,.0f}".format),
        "tokens": _spread(tokens.astype(float).tolist(), "{:,.0f}".format),
    }
    note = f"Each column is the largest of {per} neighbours." if per > 1 else ""
    return _columns(columns) + (element("p", text(note), class_="sub") if note else "") + facts(told)


def _columns(sizes: Sequence[int]) -> str:
    """Columns as SVG, which stretches; the largest is as high as the picture."""
    most, width, height = max([*sizes, 1]), len(sizes), 100.0
    drawn = [
        element(
            "rect",
            element("title", text(f"{with_unit(float(size), 'bytes')}")),
            x=f"{k + 0.08:.2f}",
            y=f"{height - max(1.0, height * size / most):.2f}",
            width="0.84",
            height=f"{max(1.0, height * size / most):.2f}",
        )
        for k, size in enumerate(sizes)
    ]
    picture = element(
        "svg",
        *drawn,
        viewBox=f"0 0 {max(width, 12)} {height:.0f}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Sizes of {width} shards, the largest {with_unit(float(most), 'bytes')}",
        class_="columns",
    )
    top = element("span", text(with_unit(float(most), "bytes")), class_="top")
    return element("div", top, picture, class_="columns-frame")


def summary(counts: LengthCounts) -> str:
    """Mean and quantiles of lengths, side by side."""
    if not len(counts):
        return ""
    told = {name: digits(counts.quantile(share)) for name, share in QUANTILES.items()}
    empty = int(counts.counts[counts.values == 0].sum())
    told |= {"mean": digits(counts.mean), "empty": f"{empty:,}"}
    items = (
        element("li", element("small", text(name)), element("strong", text(value))) for name, value in told.items()
    )
    return element("ul", *items, class_="quantiles")


def _spread(values: list[float], told: Callable[[float], str]) -> str:
    low, middle, high = (told(value) for value in (min(values), float(np.median(values)), max(values)))
    return f"{low} to {high}, median {middle}" if low != high else f"{low} each"
