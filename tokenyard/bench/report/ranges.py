"""Ranges on a scale of powers of ten: from a median to a 99th percentile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenyard.display.html import element, text


@dataclass(frozen=True, kw_only=True)
class Range:
    """A range above 0, and what is written of its ends."""

    name: str
    low: float
    high: float
    low_label: str
    high_label: str
    href: str | None = None
    is_chosen: bool = False


def ranges(caption: str, rows: Sequence[Range], tick: Callable[[float], str]) -> str:
    """A dot at each low end, a line to the high end. ``tick`` writes a power of ten."""
    if not rows:
        return ""
    first = math.floor(math.log10(min(row.low for row in rows)))
    last = max(math.ceil(math.log10(max(row.high for row in rows))), first + 1)

    def place(value: float) -> float:
        return 100 * (math.log10(value) - first) / (last - first)

    powers = [10.0**power for power in range(first, last + 1)]
    grid = "".join(element("span", class_="grid", style=f"left:{place(power):.2f}%") for power in powers)
    ticks = "".join(
        element("span", text(tick(power)), class_="tick", style=f"left:{place(power):.2f}%") for power in powers
    )
    scale = element(
        "tr", element("td"), element("td", element("div", ticks, class_="scale"), class_="drawn"), element("td")
    )
    lines = "".join(_row(row, place, grid) for row in rows)
    return element(
        "table",
        element("caption", text(caption), class_="unseen"),
        element("tbody", lines),
        element("tfoot", scale, aria_hidden="true"),
        class_="bars ranges",
    )


def _row(row: Range, place: Callable[[float], float], grid: str) -> str:
    name = text(row.name) if row.href is None else element("a", text(row.name), href=row.href)
    left, right = place(row.low), place(row.high)
    drawn = (
        element("span", class_="reach", style=f"left:{left:.2f}%;width:{right - left:.2f}%")
        + element("span", class_="dot open", style=f"left:{right:.2f}%")
        + element("span", class_="dot", style=f"left:{left:.2f}%")
    )
    return element(
        "tr",
        element("th", name, scope="row"),
        element("td", element("div", grid, drawn, class_="track", aria_hidden="true"), class_="drawn"),
        element(
            "td",
            element("span", text(row.low_label), class_="value first"),
            element("span", text(row.high_label), class_="value second"),
            class_="values",
        ),
        class_="chosen" if row.is_chosen else None,
    )
