"""Bars: a table in which each row's figures are drawn, so that it reads without eyes too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenyard.display.html import element, text


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A figure from 0 on: its length, what is written beside it, its spread, and how it is painted."""

    value: float
    label: str
    low: float | None = None
    high: float | None = None
    paint: str = "first"


@dataclass(frozen=True, kw_only=True)
class BarRow:
    """One thing with its bars. ``href``: where its name leads. ``is_chosen``: whether it stands out."""

    name: str
    bars: Sequence[Bar]
    href: str | None = None
    note: str | None = None
    is_chosen: bool = False


def bars(caption: str, rows: Sequence[BarRow], *, mark: tuple[float, str] | None = None) -> str:
    """Rows of bars on one scale. ``mark``: a value with its meaning, drawn as a line through all rows."""
    most = max([bar.high or bar.value for row in rows for bar in row.bars] + ([mark[0]] if mark else []), default=0.0)
    lines = "".join(_row(row, most or 1.0, mark) for row in rows)
    return element("table", element("caption", text(caption), class_="unseen"), element("tbody", lines), class_="bars")


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """What the paints mean: (paint, meaning)."""
    items = (element("li", element("span", class_=f"key {paint}"), text(meaning)) for paint, meaning in entries)
    return element("ul", *items, class_="legend")


def _row(row: BarRow, most: float, mark: tuple[float, str] | None) -> str:
    name = text(row.name) if row.href is None else element("a", text(row.name), href=row.href)
    if row.note:
        name += element("small", text(row.note))
    line = element("span", class_="mark", style=f"left:{100 * mark[0] / most:.2f}%", title=mark[1]) if mark else ""
    drawn = "".join(_bar(bar, most) for bar in row.bars)
    values = "".join(element("span", text(bar.label), class_=f"value {bar.paint}") for bar in row.bars)
    return element(
        "tr",
        element("th", name, scope="row"),
        element("td", element("div", drawn, line, class_="track", aria_hidden="true"), class_="drawn"),
        element("td", values, class_="values"),
        class_="chosen" if row.is_chosen else None,
    )


def _bar(bar: Bar, most: float) -> str:
    spread = ""
    if bar.low is not None and bar.high is not None and bar.high > bar.low:
        left, width = 100 * bar.low / most, 100 * (bar.high - bar.low) / most
        spread = element("span", class_="spread", style=f"left:{left:.2f}%;width:{width:.2f}%")
    fill = element(
        "span", class_=f"fill {bar.paint}", style=f"width:{max(100 * bar.value / most, 0.4 if bar.value else 0):.2f}%"
    )
    return element("div", fill, spread, class_=f"line {bar.paint}")
