"""Which tokens there are: the most frequent, and those that are no text."""

from __future__ import annotations

from collections.abc import Sequence

from tokenyard.display.bars import Bar, BarRow, bars
from tokenyard.display.html import element
from tokenyard.display.parts import facts, section
from tokenyard.display.quantities import percent
from tokenyard.display.visible import visible
from tokenyard.looking.contents import Contents
from tokenyard.looking.counting import MOST_IDS
from tokenyard.looking.page.sides import PAINTS, paints, sides

#: Tokens in the table, and marks that are told one by one.
_MOST_FREQUENT, _MARKS = 40, 24


def tokens_section(found: Sequence[Contents]) -> str:
    """The most frequent tokens; of two corpora the most frequent of either, with the shares in both."""
    ids: list[int] = []
    for at in range(_MOST_FREQUENT):
        ids += [most[at] for c in found for most in [c.counts.most_frequent(_MOST_FREQUENT)] if at < len(most)]
    ids = list(dict.fromkeys(ids))[:_MOST_FREQUENT]
    ids.sort(key=lambda number: -max(c.counts.share(number) for c in found))
    rows = [
        BarRow(
            name=_name(found, number),
            note=f"id {number}",
            bars=[
                Bar(
                    value=c.counts.share(number),
                    label=f"{percent(c.counts.share(number))}  ({c.counts.of(number):,})",
                    paint=paint,
                )
                for paint, c in zip(PAINTS, found, strict=False)
            ],
        )
        for number in ids
    ]
    named = any(c.decoder is not None for c in found)
    sub = "Shares of all tokens that were counted." + ("" if named else " With --tokenizer they have their text.")
    return section(
        "Most frequent tokens",
        sub,
        paints(found),
        element("div", bars("Most frequent tokens", rows), class_="frequent") if rows else "No tokens were counted.",
        sides(found, lambda c: facts(_variety(c))),
        id_="tokens",
    )


def special_section(found: Sequence[Contents]) -> str:
    """The shares of ids that are no text."""
    return section(
        "Special tokens",
        "Ids that the corpus or the tokenizer names as marks; added tokens where they occur.",
        sides(found, _special),
        id_="special",
    )


def _special(found: Contents) -> str:
    occurring = {n: role for n, role in found.special.items() if role != "added" or found.counts.of(n)}
    if not occurring:
        return element("p", "None are known, or none occur. --tokenizer names those of a tokenizer.", class_="sub")
    order = sorted(occurring, key=lambda number: (occurring[number] == "added", -found.counts.of(number)))
    told = {}
    for number in order[:_MARKS]:
        name = found.named(number)
        key = f"{visible(name)} ({occurring[number]}, id {number})" if name else f"{occurring[number]}, id {number}"
        told[key] = f"{percent(found.counts.share(number))}, {found.counts.of(number):,} times"
    if len(order) > _MARKS:
        rest = sum(found.counts.of(number) for number in order[_MARKS:])
        told[f"{len(order) - _MARKS:,} others"] = f"{percent(rest / max(1, found.counts.num_tokens))}, {rest:,} times"
    return facts(told)


def _variety(found: Contents) -> dict[str, str]:
    used = int((found.counts.ids > 0).sum())
    vocabulary = found.corpus.schema.vocab_size
    of = f" of {vocabulary:,} in the vocabulary" if vocabulary is not None else ""
    told = {"ids that occur": f"{used:,}{of}", "counted in": found.told}
    if found.counts.beyond:
        told[f"ids that aren't 0 .. {MOST_IDS - 1:,}"] = f"{found.counts.beyond:,} tokens, not told apart"
    return told


def _name(found: Sequence[Contents], number: int) -> str:
    """The text of a token in quotes that show its spaces, or what kind of mark it is, or nothing but its id."""
    for c in found:
        if (name := c.named(number)) is not None:
            shown = visible(name, newline="⏎", tab="⇥").replace(" ", "␣")
            if number in c.special or not shown:
                return shown or f"<{number}>"
            return f"“{shown}”"
    marks = [c.special[number] for c in found if number in c.special]
    return marks[0] if marks else str(number)
