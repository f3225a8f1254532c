"""Text in documents that spells a special token."""

import re
from collections import Counter
from os.path import commonprefix

from tokenyard.converters.engines.spec import TokenizerSpec


class SpecialTextFinder:
    """Counts what documents hold of the strings of a tokenizer's special tokens.

    Under `special_text: encode` each becomes that token, as if the corpus's maker had put it there; under `plain` it
    is text like any other. Either way somebody should know. Strings are counted as they are written, the longest
    first; what only a normalizer would turn into one is not.
    """

    def __init__(self, spec: TokenizerSpec) -> None:
        tokens = sorted(filter(None, spec.special_tokens), key=lambda token: (-len(token), token))
        self._beginnings = _beginnings(tokens)
        self._pattern = re.compile("|".join(map(re.escape, tokens)))

    def count(self, text: str) -> Counter[str]:
        """Return how often each special token's string stands in the text; nothing for those that don't."""
        if not any(beginning in text for beginning in self._beginnings):
            return Counter()
        return Counter(self._pattern.findall(text))


def _beginnings(tokens: list[str]) -> list[str]:
    """Return what every token begins with one of: as long as can be, since the search for a long string is faster."""
    groups: dict[str, list[str]] = {}
    for token in tokens:
        groups.setdefault(token[:2], []).append(token)
    return sorted(map(commonprefix, groups.values()))
