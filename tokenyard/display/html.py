"""Elements of HTML and SVG as texts; nothing in a text or an attribute acts, or is more than UTF-8 can hold."""

from __future__ import annotations

from html import escape

from tokenyard.display.visible import visible

#: Elements that have no end tag in HTML.
_VOID = ("meta", "br")


def text(value: object) -> str:
    """A value as text that is safe between tags."""
    return escape(visible(str(value)))


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
        told += f" {key}" if value is True else f' {key}="{text(value)}"'
    opened = f"<{name}{told}>"
    return opened if name in _VOID else f"{opened}{''.join(content)}</{name}>"
