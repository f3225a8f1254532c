"""Character classes with three answers: True, False, and None for what is not known or not the same everywhere.

Regex libraries ship their own Unicode tables, older or newer than Python's. Only what no version ever changed is
answered with True or False.
"""

import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

CharTest = Callable[[str], bool | None]

_SPACES = frozenset("\t\n\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(n) for n in range(0x2000, 0x200B)}
_UNSURE_SPACES = frozenset("\x0b\x1c\x1d\x1e\x1f\x85\u180e\u200b\u2060\ufeff")  # libraries differ
_HAN = range(0x4E00, 0x9FA6)  # in Unicode since 1.1
_CATEGORY_LETTERS = frozenset("LMNPSZC")


@cache
def _category(char: str) -> str | None:
    """Return the general category if it has been the same since Unicode 3.2."""
    now = unicodedata.category(char)
    return now if now == unicodedata.ucd_3_2_0.category(char) and now != "Cn" else None


def one_of(chars: Iterable[str]) -> CharTest:
    """Match exactly these characters."""
    known = frozenset(chars)
    return lambda char: char in known


def between(first: str, last: str) -> CharTest:
    """Match a range of code points."""
    return lambda char: first <= char <= last


def anything_but(char: str) -> CharTest:
    """Match all characters but one."""
    return lambda other: other != char


def anything(char: str) -> bool | None:
    """Match every character."""
    return True


def unknown(char: str) -> bool | None:
    """Match nobody knows what."""
    return None


def is_space(char: str) -> bool | None:
    r"""Match \s, as far as all libraries agree."""
    return None if char in _UNSURE_SPACES else char in _SPACES


def category(*names: str) -> CharTest:
    """Match general categories, whole groups (`L`) or single ones (`Lu`)."""

    def test(char: str) -> bool | None:
        found = _category(char)
        return None if found is None else any(found.startswith(name) for name in names)

    return test


is_digit = category("Nd")
is_punctuation = category("P")
is_numeric = category("N")


def is_word(char: str) -> bool | None:
    r"""Match \w."""
    return any_of([category("L", "M", "Nd", "Pc"), unknown if category("Nl", "No")(char) else category()])(char)


def is_bert_punctuation(char: str) -> bool | None:
    """Match what BERT splits off: all of ASCII that is neither letter, digit, space nor control, and category P."""
    if char.isascii():
        return "!" <= char <= "~" and not char.isalnum()
    return is_punctuation(char)


def property_named(name: str) -> CharTest:
    r"""Match \p{name}: a general category, or a script as far as it is sure."""
    if name[:1] in _CATEGORY_LETTERS and len(name) <= 2:
        return category(name)
    if name.lower() == "han":
        return lambda char: False if char.isascii() else True if ord(char) in _HAN else None
    return lambda char: False if char.isascii() and not char.isalnum() else None


def negate(test: CharTest) -> CharTest:
    """Match what `test` does not."""

    def negated(char: str) -> bool | None:
        found = test(char)
        return None if found is None else not found

    return negated


def any_of(tests: list[CharTest]) -> CharTest:
    """Match what one of the tests does."""

    def union(char: str) -> bool | None:
        found = [test(char) for test in tests]
        return True if True in found else None if None in found else False

    return union


def all_of(tests: list[CharTest]) -> CharTest:
    """Match what all of the tests do."""
    return negate(any_of([negate(test) for test in tests]))


def any_case(test: CharTest) -> CharTest:
    """Match without regard to case; None where `test` tells the cases of a character apart."""

    def folded(char: str) -> bool | None:
        found = {test(case) for case in _cases(char)}
        return found.pop() if len(found) == 1 else None

    return folded


def _cases(char: str) -> set[str]:
    return {case for case in (char, char.lower(), char.upper(), char.casefold()) if len(case) == 1}
