"""Elements of HTML and SVG as texts."""

from __future__ import annotations

from html import escape

#: Elements that have no end tag in HTML.
_VOID = ("meta", "br")


def text(value: object) -> str:
    """A value as text that is safe between tags."""
    return escape(str(value))


def element(name: str, /, *content: str, **attributes: object) -> str:
    """An element around content that is HTML already.

    Names of attributes: ``_`` stands for ``-``, and one at the end is dropped, as in ``class_``. None leaves one out,
    True gives it without a value.
    """
    told = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        told += f" {key}" if value is True else f' {key}="{escape(str(value))}"'
    opened = f"<{name}{told}>"
    return opened if name in _VOID else f"{opened}{''.join(content)}</{name}>"
