"""Encoding documents of any length: long ones in parts, joined again."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenyard.converters.engines.base import Encoded, Engine
from tokenyard.converters.engines.cuts import CutRule, NoCutRule

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, kw_only=True)
class CutLimits:
    """When and how finely texts are cut.

    whole_chars: a text of up to so many characters is encoded as it is.
    part_chars: a longer one is cut into parts of at most so many, where there are cuts.
    max_uncut_bytes: a text, or a stretch of one, without a proven cut may be this long. transformers takes some 3 s
        and 700 MB for 4 MiB.
    """

    whole_chars: int = 256 * KIB
    part_chars: int = 16 * KIB
    max_uncut_bytes: int = 4 * MIB


@dataclass(frozen=True, kw_only=True)
class Uncuttable:
    """A document that is not encoded: too long a stretch of it has no proven cut. `byte`: where the stretch begins."""

    byte: int
    message: str


def cut_document(text: str, rule: CutRule | NoCutRule, limits: CutLimits = CutLimits()) -> tuple[str, ...] | Uncuttable:
    """Return parts whose ids, one behind the other, are the ids of the text; a short text is its own only part."""
    if len(text) <= limits.whole_chars and 4 * len(text) <= limits.max_uncut_bytes:
        return (text,)
    parts: list[str] = []
    begin = 0
    while len(text) - begin > limits.part_chars:
        found = _last_cut(text, begin, begin + limits.part_chars, rule)
        if found is None:
            found = _first_cut(text, begin + limits.part_chars, begin + limits.max_uncut_bytes, rule)
        if found is None:
            break
        point, resumed = found
        parts.append(text[begin:point])
        begin = resumed
    parts.append(text[begin:])
    for number, part in enumerate(parts):
        if 4 * len(part) > limits.max_uncut_bytes and len(part.encode()) > limits.max_uncut_bytes:
            return _uncuttable(parts, number, rule, limits)
    return tuple(parts)


def encode_parts(engine: Engine, documents: Sequence[tuple[str, ...]]) -> Encoded:
    """Encode documents given as their parts: one length a document."""
    encoded = engine.encode_batch([part for parts in documents for part in parts])
    if len(encoded.lengths) == len(documents):
        return encoded
    starts = np.cumsum([0, *map(len, documents)])[:-1]
    return Encoded(ids=encoded.ids, lengths=np.add.reduceat(encoded.lengths, starts))


def _last_cut(text: str, begin: int, end: int, rule: CutRule | NoCutRule) -> tuple[int, int] | None:
    for point in range(end, begin, -1):
        resumed = rule.resume(text, point)
        if resumed is not None:
            return point, resumed
    return None


def _first_cut(text: str, begin: int, end: int, rule: CutRule | NoCutRule) -> tuple[int, int] | None:
    for point in range(begin + 1, min(end, len(text) - 1) + 1):
        resumed = rule.resume(text, point)
        if resumed is not None:
            return point, resumed
    return None


def _uncuttable(parts: list[str], number: int, rule: CutRule | NoCutRule, limits: CutLimits) -> Uncuttable:
    size = len(parts[number].encode())
    byte = sum(len(part.encode()) for part in parts[:number])
    reason = rule.reason if isinstance(rule, NoCutRule) else "no cut is proven inside"
    above = f"above max_uncut_bytes = {limits.max_uncut_bytes}"
    return Uncuttable(byte=byte, message=f"{size} bytes from byte {byte} on can't be cut, {above}: {reason}")
