"""A row as it is shown, on a terminal or on a page: cells of text, cut into documents, with what is masked.

What rows hold is anybody's: texts here are made so that nothing in them acts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.display.visible import visible
from tokenyard.looking.decoding import Decoder

_NEWLINE, _TAB = "⏎\n", "⇥\t"
_MOST_ITEMS, _MOST_CHARACTERS = 20, 200


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A token, or the few that make one character.

    Attributes:
        text: what is shown; an id where there is no text.
        ids: the ids it stands for.
        is_special: whether it is a mark (EOS, BOS, padding) or an added token, and no text.
        is_masked: whether it is not trained on.
        is_found: whether it is a part of what was searched for.
    """

    text: str
    ids: tuple[int, ...]
    is_special: bool = False
    is_masked: bool = False
    is_found: bool = False


@dataclass(frozen=True, kw_only=True)
class Part:
    """The shown cells of one document, or of padding. ``title``: which, None where a row is nothing else."""

    title: str | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """Tokens to show, of a row or of a slot of a step.

    Attributes:
        title: what it is.
        num_tokens: how many tokens it has.
        parts: what is shown of it, document by document.
        before, after: tokens that are not shown.
        mask: what says which tokens are masked; None where nothing is.
        fields: the extra fields as text.
    """

    title: str
    num_tokens: int
    parts: tuple[Part, ...]
    before: int = 0
    after: int = 0
    mask: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Tokens start .. stop of a row that belong together."""

    title: str | None
    start: int
    stop: int


def show(
    title: str,
    tokens: NDArray[Any],
    stretches: Sequence[Stretch],
    *,
    window: tuple[int, int],
    decoder: Decoder | None,
    special: Mapping[int, str],
    mask: tuple[str, NDArray[np.bool_]] | None = None,
    found: tuple[int, int] | None = None,
    fields: Mapping[str, str] | None = None,
) -> ShownRow:
    """The tokens of a window, cut at stretches.

    Args:
        title: what they are of; nothing acts in it afterwards, nor in the names of files and fields.
        tokens: all of them.
        stretches: the documents, in their order, which cover all tokens.
        window: the first token to show, and the one after the last.
        decoder: gives text; None shows ids.
        special: names of ids that are no text.
        mask: its name, and bool[tokens], true where a token is trained on.
        found: the first token of what was searched for, and the one after its last.
        fields: as ``ShownRow``.
    """
    first, last = max(0, window[0]), min(len(tokens), window[1])
    parts = []
    for stretch in stretches:
        start, stop = max(first, stretch.start), min(last, stretch.stop)
        if start >= stop:
            continue
        cells = []
        for count, text in _pieces(tokens[start:stop].tolist(), decoder):
            ids = tuple(tokens[start : start + count].tolist())
            cells.append(
                Cell(
                    text=text or f"<{ids[0]}>",
                    ids=ids,
                    is_special=ids[0] in special,
                    is_masked=mask is not None and not mask[1][start],
                    is_found=found is not None and start < found[1] and start + count > found[0],
                )
            )
            start += count
        parts.append(Part(title=None if stretch.title is None else visible(stretch.title), cells=tuple(cells)))
    return ShownRow(
        title=visible(title),
        num_tokens=len(tokens),
        parts=tuple(parts),
        before=first,
        after=len(tokens) - last,
        mask=None if mask is None else visible(mask[0]),
        fields={visible(name): value for name, value in (fields or {}).items()},
    )


def told_value(value: Any) -> str:
    """A field's value in one short line."""
    if isinstance(value, np.ndarray):
        some = " ".join(str(item) for item in value[:_MOST_ITEMS].tolist())
        return f"[{some}{' ...' if len(value) > _MOST_ITEMS else ''}] ({len(value):,} values)"
    told = repr(value[: _MOST_CHARACTERS + 1]) if isinstance(value, str | bytes) else repr(value)
    if len(told) <= _MOST_CHARACTERS:
        return visible(told)
    return (
        f"{visible(told[:_MOST_CHARACTERS])}... ({len(value) if isinstance(value, str | bytes) else len(told):,} long)"
    )


def _pieces(ids: list[int], decoder: Decoder | None) -> list[tuple[int, str]]:
    if decoder is None:
        return [(1, str(number)) for number in ids]
    return [(count, visible(text, newline=_NEWLINE, tab=_TAB)) for count, text in decoder.pieces(ids)]
