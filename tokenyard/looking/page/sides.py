"""Two corpora beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tokenyard.display.bars import legend
from tokenyard.display.html import element, text
from tokenyard.display.visible import visible
from tokenyard.looking.contents import Contents

#: How each corpus is painted.
PAINTS = ("first", "other")


def sides(found: Sequence[Contents], make: Callable[[Contents], str]) -> str:
    """The same of each corpus, side by side; of one alone without its name."""
    if len(found) == 1:
        return make(found[0])
    parts = (element("div", element("h3", text(c.name), class_="side"), make(c)) for c in found)
    return element("div", *parts, class_="sides")


def paints(found: Sequence[Contents]) -> str:
    """Which paint is which corpus; nothing where there is only one."""
    if len(found) == 1:
        return ""
    return legend([(paint, visible(c.name)) for paint, c in zip(PAINTS, found, strict=True)])
