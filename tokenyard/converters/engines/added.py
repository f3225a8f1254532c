"""Added tokens around a point in a text: whether one may stand across it, or right at it."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from tokenyard.converters.engines import charclass


class AddedTokens:
    """The added tokens of a tokenizer, `special` or not.

    They are found before anything else, in the text as it is, or (`normalized`) in the normalized text. One that
    touches the point may look across it: for a word's end (`single_word`), or for white space to swallow (`lstrip`,
    `rstrip`).
    """

    def __init__(self, added: list[dict[str, Any]], normalize: Callable[[str], str] | None, keeps_ascii: bool) -> None:
        # per token: what it looks like where it is searched for, and in the text
        self._in_text = [(token["content"],) * 2 for token in added if not token["normalized"] or normalize is None]
        self._in_normalized = [
            (normalize(token["content"]), token["content"]) for token in added if token["normalized"] and normalize
        ]
        self._keeps_ascii = keeps_ascii
        self._strips = any(token["lstrip"] or token["rstrip"] for token in added)
        self._near_text = cache(partial(_near, self._in_text))
        self._near_normalized = cache(partial(_near, self._in_normalized))

    def allow(self, text: str, point: int, x: str, y: str) -> bool:
        """Say whether no added token touches `point`, and none swallows white space across it.

        x, y: the characters around the point once normalized.
        """
        before, behind = text[point - 1], text[point]
        if self._strips and not charclass.is_space(before) is charclass.is_space(x) is False:
            return False
        if any(_touches(raw, text, point) for raw in self._near_text(before, behind)):
            return False
        return all(self._is_elsewhere(raw, text, point) for raw in self._near_normalized(x, y))

    def _is_elsewhere(self, raw: str, text: str, point: int) -> bool:
        """Say whether a token that is searched for in normalized text does not touch the point, as far as is sure."""
        around = text[max(0, point - len(raw)) : point + len(raw)]
        return self._keeps_ascii and around.isascii() and raw.isascii() and not _touches(raw, text, point)


def _near(tokens: list[tuple[str, str]], x: str, y: str) -> tuple[str, ...]:
    """Return the tokens, as they are in the text, that can touch a point between x and y."""
    return tuple(
        raw for searched, raw in tokens if not searched or searched[-1] == x or searched[0] == y or x + y in searched
    )


def _touches(content: str, text: str, point: int) -> bool:
    return content in text[max(0, point - len(content)) : point + len(content)]
