"""Parts that pages share: a section, a list of facts, commands, a table that scrolls, and the page itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from tokenyard.display.html import element, text


def section(title: str, sub: str, *content: str, id_: str | None = None) -> str:
    """A section with its title and a line below it; ``id_`` is what links name."""
    under = element("p", text(sub), class_="sub") if sub else ""
    return element("section", element("h2", text(title)), under, *content, id=id_)


def facts(told: Mapping[str, object], class_: str | None = None) -> str:
    """Names with their values; what has none is left out."""
    pairs = (element("dt", text(name)) + element("dd", text(value)) for name, value in told.items() if value)
    return element("dl", *pairs, class_=class_)


def code(line: str) -> str:
    """A command, which wraps."""
    return element("pre", element("code", text(line)))


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, class_: str) -> str:
    """A table in a frame that scrolls, first cells as headers of their rows. Cells are HTML already.

    Roles are told, since a style that shows it otherwise takes them away.
    """
    head = element("tr", *(element("th", text(name), scope="col", role="columnheader") for name in header), role="row")
    lines = (
        element(
            "tr",
            element("th", row[0], scope="row", role="rowheader"),
            *(element("td", cell, role="cell") for cell in row[1:]),
            role="row",
        )
        for row in rows
    )
    found = element(
        "table",
        element("caption", text(caption), class_="unseen"),
        element("thead", head, role="rowgroup"),
        element("tbody", *lines, role="rowgroup"),
        class_=class_,
        role="table",
    )
    return element("div", found, class_="scroll", role="region", aria_label=caption, tabindex=0)


def html_page(title: str, styles: Sequence[str], *body: str) -> str:
    """A page: no script, nothing fetched, light or dark as the reader's system is, from phones up.

    ``styles``: CSS that comes after the one that all pages share.
    """
    shared = files("tokenyard.display").joinpath("page.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", text(title)),
        element("style", shared, *styles),
    )
    return "<!doctype html>\n" + element("html", head, element("body", *body), lang="en") + "\n"
