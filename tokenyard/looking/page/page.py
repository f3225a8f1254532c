"""The page: what a corpus is first, then pictures, samples and the order, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from tokenyard.display.html import element, text
from tokenyard.display.parts import code, html_page, section
from tokenyard.display.quantities import with_unit
from tokenyard.display.visible import visible
from tokenyard.looking.contents import Contents
from tokenyard.looking.difference import FirstDifference
from tokenyard.looking.page.order import order_section
from tokenyard.looking.page.packing import packing_section
from tokenyard.looking.page.rows import rows_section
from tokenyard.looking.page.sizes import lengths_section, shards_section
from tokenyard.looking.page.tokens import special_section, tokens_section
from tokenyard.looking.page.totals import difference_section, provenance_section, totals_section

if TYPE_CHECKING:  # it imports torch
    from tokenyard.datasets.order_map import OrderMap


def corpus_page(
    found: Sequence[Contents],
    *,
    command: str,
    notes: Sequence[str] = (),
    difference: FirstDifference | None = None,
    order: OrderMap | None = None,
) -> str:
    """The page of one corpus, or of two side by side.

    Args:
        found: one or two.
        command: what makes the page again.
        notes: what it doesn't tell, in sentences.
        difference: of two corpora with the same number of rows.
        order: which sample goes to which rank; of the first corpus.
    """
    style = files("tokenyard.looking.page").joinpath("style.css").read_text(encoding="utf-8")
    sections = [
        difference_section(found, difference) if len(found) > 1 else "",
        totals_section(found),
        lengths_section(found),
        tokens_section(found),
        special_section(found),
        packing_section(found),
        shards_section(found),
        rows_section(found),
        order_section(order) if order is not None else "",
        provenance_section(found),
        _method(found, command, notes),
    ]
    title = " and ".join(visible(c.name) for c in found)
    footer = element("footer", "Made by tokenyard report.")
    return html_page(f"Corpus: {title}", [style], _header(found), element("main", *sections, footer))


def _header(found: Sequence[Contents]) -> str:
    leads = [
        f"{len(c.corpus):,} rows, {c.corpus.num_tokens:,} tokens in {len(c.shard_bytes):,} shards of "
        f"{c.corpus.format}, {with_unit(float(c.shard_bytes.sum()), 'bytes')}."
        for c in found
    ]
    names = [element("span", text(c.name), class_="name") for c in found]
    return element(
        "header",
        element("p", "tokenyard report", class_="brand"),
        element("h1", " against ".join(names)),
        *(element("p", text(lead), class_="lead") for lead in leads[:1] if len(found) == 1),
    )


def _method(found: Sequence[Contents], command: str, notes: Sequence[str]) -> str:
    said = []
    for c in found:
        of = f"{visible(c.name)}: " if len(found) > 1 else ""
        said.append(f"{of}Ids, padding and documents were counted in {c.told}.")
        said.append(f"{of}Lengths of rows are those of {c.lengths.told}, out of row indexes.")
    items = (element("li", text(sentence)) for sentence in [*said, *notes])
    return section(
        "What was read, and how",
        "The same command gives the same page while the files stay the same; --full reads all of them.",
        element("ul", *items, class_="notes"),
        code(command),
        id_="method",
    )
