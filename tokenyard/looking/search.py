"""Searching rows for a text, or for ids, through a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tokenyard.corpus import Corpus
from tokenyard.errors import ConfigError
from tokenyard.looking.decoding import Decoder
from tokenyard.rows import Array

#: Tokens looked through at a time.
_BATCH_TOKENS = 1 << 17

_Find = Callable[[Array], "tuple[int, int] | None"]


@dataclass(frozen=True, kw_only=True)
class Hit:
    """Where a row holds what was searched for: tokens start .. stop of it; of several places the first."""

    row: int
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Search:
    """What a search found, and how far it went.

    Attributes:
        hits: a hit for each row that has one, in the order of rows.
        first_row: the row it began with.
        next_row: the row after the last that was looked through, where another search goes on.
        num_tokens: tokens that were looked through.
        is_done: whether no row was left.
    """

    hits: tuple[Hit, ...]
    first_row: int
    next_row: int
    num_tokens: int
    is_done: bool


def search(
    corpus: Corpus, wanted: str, *, decoder: Decoder | None, first_row: int, max_hits: int, max_tokens: int
) -> Search:
    """Look through rows from ``first_row`` on, until ``max_hits`` have it or ``max_tokens`` were looked through.

    Args:
        corpus: whose rows.
        wanted: a text as rows decode to it; without a decoder ids, separated by spaces.
        decoder: gives the text of rows.
        first_row: where to begin.
        max_hits: how many rows to find.
        max_tokens: how many tokens to look through; the first row is looked through in any case.

    Raises:
        ConfigError: nothing is wanted, or without a decoder something else than ids.
    """
    find = partial(_find_ids, _ids(wanted)) if decoder is None else partial(_find_text, wanted, decoder)
    if not wanted:
        raise ConfigError("--search: expected a text to search for, found an empty one")
    hits: list[Hit] = []
    row, read = first_row, 0
    for at, tokens in _rows(corpus, first_row):
        if read and read + len(tokens) > max_tokens:
            break
        row, read = at + 1, read + len(tokens)
        if (place := find(tokens)) is not None:
            hits.append(Hit(row=at, start=place[0], stop=place[1]))
            if len(hits) == max_hits:
                break
    return Search(hits=tuple(hits), first_row=first_row, next_row=row, num_tokens=read, is_done=row >= len(corpus))


def _rows(corpus: Corpus, first_row: int) -> Iterator[tuple[int, Array]]:
    row = first_row
    for batch in corpus.batches(first_row, max_tokens=_BATCH_TOKENS):
        for i in range(len(batch)):
            yield row + i, batch.tokens[batch.offsets[i] : batch.offsets[i + 1]]
        row += len(batch)


def _ids(wanted: str) -> Array:
    words = wanted.split()
    if not words or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise ConfigError(
            f"--search {wanted!r:.60}: without --tokenizer rows are ids, and expected are ids to search for, as "
            "'15496 995'; name the tokenizer to search for a text"
        )
    return np.array([int(word) for word in words], np.int64)


def _find_ids(wanted: Array, tokens: Array) -> tuple[int, int] | None:
    places = np.flatnonzero(tokens[: max(0, len(tokens) - len(wanted) + 1)] == wanted[0])
    for k in range(1, len(wanted)):
        places = places[tokens[places + k] == wanted[k]]
    return (int(places[0]), int(places[0]) + len(wanted)) if len(places) else None


def _find_text(wanted: str, decoder: Decoder, tokens: Array) -> tuple[int, int] | None:
    ids: list[int] = tokens.tolist()
    at = decoder.text(ids).find(wanted)
    if at < 0:
        return None
    first = _tokens_until(ids, decoder, at + 1) - 1
    return first, max(first + 1, _tokens_until(ids, decoder, at + len(wanted)))


def _tokens_until(ids: Sequence[int], decoder: Decoder, characters: int) -> int:
    """How many tokens it takes for a text of so many characters."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if len(decoder.text(ids[:middle])) < characters:
            low = middle + 1
        else:
            high = middle
    return low
