"""Text of anybody's as it can be shown: what a terminal would obey, or what turns a line around, becomes signs."""

from __future__ import annotations

import unicodedata

#: U+0000 .. U+001F and U+007F have pictures; what acts and has none is spelled out.
_SIGNS = {code: 0x2400 + code for code in range(32)} | {127: 0x2421}
#: Control characters past ASCII, format characters (directions, joiners, tags), halves of pairs, line separators.
_ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")
#: Joiners inside of words and emoji, which change no more than a shape.
_HARMLESS = "\u200c\u200d"


def visible(text: str, *, newline: str = "\n", tab: str = "\t") -> str:
    """A text in which nothing acts; ``newline`` and ``tab`` are what stands for these two."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c, newline, tab) for c in text)


def _visible(character: str, newline: str, tab: str) -> str:
    if character == "\n":
        return newline
    if character == "\t":
        return tab
    if (sign := _SIGNS.get(ord(character))) is not None:
        return chr(sign)
    if unicodedata.category(character) in _ACTING and character not in _HARMLESS:
        return f"<U+{ord(character):04X}>"
    return character
