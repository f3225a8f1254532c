"""Token ids as text, with the edges of tokens kept: which text each of them, or each few of them, stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from tokenyard.converters.engines import TokenizerSpec, load_tokenizer

#: What stands for bytes that are no character, or not a whole one yet.
_BROKEN = "\ufffd"
#: Tokens that make one character at most: one for each byte of UTF-8.
_MOST_OF_ONE = 4


class Decoder:
    """Says which text ids stand for. Ids that its tokenizer doesn't have stand for none.

    Attributes:
        name: what the tokenizer was asked for by.
        special: its special and added tokens by their ids.
        eos_id, bos_id, pad_id: ids of these marks; None where it has none.
    """

    def __init__(self, spec: TokenizerSpec) -> None:
        tokenizer = spec.tokenizer
        self.name = spec.name
        self.special: Mapping[int, str] = {
            int(number): str(token) for number, token in sorted(tokenizer.added_tokens_decoder.items())
        }
        self.eos_id, self.bos_id = spec.eos_id, spec.bos_id
        self.pad_id: int | None = tokenizer.pad_token_id
        self._tokenizer: Any = tokenizer
        self._max_id = spec.max_id

    @classmethod
    def load(cls, name: str) -> Decoder:
        """Load a tokenizer by name, from a folder or out of a tokenizer.json. Raises what ``load_tokenizer`` does."""
        return cls(load_tokenizer(name))

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids together; those that the tokenizer doesn't have are left out."""
        known = [i for i in ids if self._has(i)]
        return str(
            self._tokenizer.decode(known, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            if known
            else ""
        )

    def pieces(self, ids: Sequence[int]) -> list[tuple[int, str]]:
        """The ids cut as finely as their text can be: (how many ids, their text), the text "" where there is none.

        A character that several tokens make is one piece.
        """
        found: list[tuple[int, str]] = []
        for is_known, run in groupby(ids, self._has):
            of_run = list(run)
            found += self._of_known(of_run) if is_known else [(1, "")] * len(of_run)
        return found

    def _has(self, number: int) -> bool:
        return 0 <= number <= self._max_id

    def _of_known(self, ids: list[int]) -> Iterator[tuple[int, str]]:
        """What each id adds to the text of the piece before it, since spaces depend on neighbours."""
        before, start = 0, 0
        while start < len(ids):
            told = self.text(ids[before:start])
            stop, text = start + 1, self.text(ids[before : start + 1])
            single = text
            while _BROKEN in text[len(told) :] and stop < min(len(ids), start + _MOST_OF_ONE):
                stop += 1
                text = self.text(ids[before:stop])
            if _BROKEN in text[len(told) :]:  # no character comes of it
                stop, text = start + 1, single
            alone = not text.startswith(told)
            yield stop - start, self.text(ids[start:stop]) if alone else text[len(told) :]
            before, start = start, stop
