"""The map of the order: which sample goes to which step and rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenyard.display.html import element, text
from tokenyard.display.parts import code, section, table
from tokenyard.display.visible import visible

if TYPE_CHECKING:  # it imports torch
    from tokenyard.datasets.order_map import MapCell, OrderMap

#: From the hue of a corpus's begin to that of its end, in degrees.
_FIRST_HUE, _LAST_HUE = 210, -30


def order_section(found: OrderMap) -> str:
    """Steps down, ranks across; samples by number, colored by their place in the corpus."""
    ranks = len(found.cells[0]) if found.cells else 0
    header = ("step", *(f"rank {rank}" for rank in range(ranks)))
    rows = [(str(step), *map(_cell, cells)) for step, cells in enumerate(found.cells)]
    scale = element(
        "p",
        element("span", "begin of the corpus"),
        element("span", class_="scale-of-places", aria_hidden="true"),
        element("span", "end"),
        class_="places",
    )
    return section(
        "Order",
        found.about,
        scale,
        table("Order: samples by step and rank", header, rows, class_="order"),
        code(found.command) if found.command else "",
        id_="order",
    )


def _cell(cell: MapCell) -> str:
    several = len(set(cell.sources)) > 1
    shown = []
    for sample, source, place, pads in zip(cell.samples, cell.sources, cell.places, cell.is_padding, strict=True):
        hue = _FIRST_HUE + (_LAST_HUE - _FIRST_HUE) * place
        name = f"{visible(source)} {sample}" if several else str(sample)
        title = f"sample {sample} of {visible(source)}, at {place:.0%} of it" + (
            ", only fills the batch" if pads else ""
        )
        shown.append(
            element(
                "span", text(name), class_="sample pads" if pads else "sample", style=f"--hue:{hue:.0f}", title=title
            )
        )
    return " ".join(shown)
