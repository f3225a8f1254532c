"""How full packed rows are, and what that wastes."""

from __future__ import annotations

from collections.abc import Sequence

from tokenyard.display.bars import Bar, BarRow, bars, legend
from tokenyard.display.html import element
from tokenyard.display.parts import facts, section
from tokenyard.display.quantities import digits, percent
from tokenyard.display.visible import visible
from tokenyard.looking.contents import Contents
from tokenyard.looking.counting import Fill
from tokenyard.looking.page.sides import PAINTS, sides
from tokenyard.looking.page.sizes import histogram


def packing_section(found: Sequence[Contents]) -> str:
    """Fill and waste of rows that say where their documents end; what is known of others."""
    fills = [(paint, c, c.counts.fill) for paint, c in zip(PAINTS, found, strict=False) if c.counts.fill is not None]
    key = legend([(paint, visible(c.name)) for paint, c, _ in fills]) if len(found) > 1 and fills else ""
    documents = [
        element("h3", "Documents in packed rows, by length"),
        key,
        histogram("Documents by length", [(paint, fill.documents) for paint, _, fill in fills]),
    ]
    return section(
        "Packing",
        "How full rows are: tokens of documents, against padding." if fills else "",
        *([key, _fill_chart([(paint, fill) for paint, _, fill in fills])] if fills else []),
        sides(found, _facts),
        *(documents if fills else []),
        id_="packing",
    )


def _fill_chart(fills: Sequence[tuple[str, Fill]]) -> str:
    rows = []
    last = len(fills[0][1].steps) - 1
    for step in range(last + 1):
        drawn = []
        for paint, fill in fills:
            number = int(fill.steps[step])
            share = number / max(1, int(fill.steps.sum()))
            drawn.append(Bar(value=share, label=f"{number:,} ({percent(share)})", paint=paint))
        width = 100 // last
        name = "full" if step == last else f"{step * width} – {(step + 1) * width} %"
        if any(bar.value for bar in drawn):
            rows.append(BarRow(name=name, bars=drawn))
    return bars("Rows by how full they are", rows)


def _facts(found: Contents) -> str:
    corpus, fill = found.corpus, found.counts.fill
    if fill is not None:
        return facts(_told(found, fill))
    if corpus.layout.kind == "packed":
        said = "Rows are packed, and don't say where their documents end, so padding can't be told from text."
        pad = corpus.layout.pad_token_id
        if pad is not None:
            said += f" {percent(found.counts.share(pad))} of tokens are the padding id {pad}."
        return element("p", said, class_="sub")
    return element("p", "Rows are documents, not packed: nothing is padding yet.", class_="sub")


def _told(found: Contents, fill: Fill) -> dict[str, str]:
    counts, pads = found.counts, found.corpus.layout.pad_token_id is not None
    return {
        "waste": f"{percent(fill.padding / max(1, counts.num_tokens))} of tokens are padding, {fill.padding:,}"
        if pads
        else "none: rows are full, and nothing is padding",
        "full rows": f"{fill.full_rows:,} of {counts.num_rows:,}",
        "documents in a row": digits(len(fill.documents) / max(1, counts.num_rows)),
        "counted in": found.told,
    }
