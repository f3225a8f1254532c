"""Rows to look at: every token with its edges, documents apart, what is masked dimmed."""

from __future__ import annotations

from collections.abc import Sequence

from tokenyard.display.html import element, text
from tokenyard.display.parts import section
from tokenyard.display.visible import visible
from tokenyard.looking.contents import Contents
from tokenyard.looking.page.sides import sides
from tokenyard.looking.shown import Cell, Part, ShownRow


def rows_section(found: Sequence[Contents]) -> str:
    """Sample rows."""
    return section(
        "Sample rows",
        "Grounds alternate by token; marks such as EOS have one of their own, and what is masked is struck out.",
        sides(found, lambda c: "".join(map(_row, c.rows)) or element("p", "There are no rows.", class_="sub")),
        id_="rows",
    )


def _row(row: ShownRow) -> str:
    about = [f"{row.num_tokens:,} tokens"]
    if row.before:
        about.append(f"{row.before:,} before are not shown")
    if row.after:
        about.append(f"{row.after:,} more are not shown")
    if row.mask is not None:
        about.append(f"masked by {visible(row.mask)}")
    fields = (element("dt", text(name)) + element("dd", text(value)) for name, value in row.fields.items())
    return element(
        "article",
        element("h3", text(f"{row.title[:1].upper()}{row.title[1:]}"), element("small", text(", ".join(about)))),
        *map(_part, row.parts),
        element("dl", *fields, class_="fields") if row.fields else "",
        class_="row",
    )


def _part(part: Part) -> str:
    title = element("p", text(part.title), class_="document") if part.title else ""
    is_text = any(not cell.text.isdigit() for cell in part.cells)
    shown = "".join(_cell(n, cell) for n, cell in enumerate(part.cells))
    return title + element("p", shown, class_="tokens" if is_text else "tokens ids", dir="auto")


def _cell(number: int, cell: Cell) -> str:
    classes = ["t", "ab"[number % 2]]
    classes += [name for name, holds in (("special", cell.is_special), ("masked", cell.is_masked)) if holds]
    return element("span", text(cell.text), class_=" ".join(classes), title=" ".join(map(str, cell.ids)))
