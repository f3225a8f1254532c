"""The steps of a tokenizer.json, seen from a point between two characters x and y of the text.

A normalizer step maps characters; a pre-tokenizer step cuts the text into pieces; the model encodes each piece alone.
Each answers for one pair of characters whether it does the same when the text is cut there. ValueError for a step
whose workings are not modelled.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tokenyard.converters.engines import charclass
from tokenyard.converters.engines.charclass import CharTest
from tokenyard.converters.engines.pattern import Adjacency

Config = dict[str, Any]
Pair = tuple[str, str]

# ByteLevel's own pattern: `tokenizers`, pre_tokenizers/byte_level.rs
BYTE_LEVEL = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# Normalizers that look at each character alone, once marks are kept away (see `is_plain`).
_BY_CHARACTER = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer", "Nmt", "ByteLevel")
_PUNCTUATION = frozenset("、。，．！？：；（）《》「」『』“”‘’—…")


@dataclass(frozen=True, kw_only=True)
class NormalizerStep:
    """`affects(x, y)`: whether it may do something across the point. `apply(char)`: what it makes of a character."""

    affects: Callable[[str, str], bool]
    apply: Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class PieceStep:
    """`affects(x, y)`: whether it may cut otherwise around the point. `cuts(x, y)`: whether it always cuts there.

    `apply(char)`: what it makes of a character, for the steps behind it.
    """

    affects: Callable[[str, str], bool]
    cuts: Callable[[str, str], bool]
    apply: Callable[[str], str] = str


def is_plain(char: str) -> bool:
    """Say whether normalization keeps out of the point in front of this character, and never reorders it.

    So it is with ASCII, common ideographs and their punctuation: each begins a normalization segment of its own, and
    none is the second half of a composition (Unicode Standard Annex 15, "stable code points").
    """
    return char.isascii() or "\u4e00" <= char <= "\u9fa5" or char in _PUNCTUATION


def in_sequence(config: Config | None, key: str) -> list[Config]:
    """Return the steps of a normalizer or pre-tokenizer, sequences taken apart."""
    if config is None:
        return []
    if config["type"] == "Sequence":
        return [step for part in config[key] for step in in_sequence(part, key)]
    return [config]


def normalizer_step(config: Config) -> NormalizerStep:
    """Model one normalizer."""
    apply = lru_cache(maxsize=4096)(_normalizer(config))
    if config["type"] in _BY_CHARACTER:
        return NormalizerStep(affects=_never, apply=apply)
    if config["type"] != "Replace":
        raise ValueError(f"the normalizer {config['type']} is not modelled")
    kind, pattern = next(iter(config["pattern"].items()))
    if kind == "String":
        if len(pattern) == 1:
            return NormalizerStep(affects=_never, apply=apply)
        return NormalizerStep(affects=lambda x, y: x in pattern or y in pattern, apply=apply)
    adjacency = Adjacency(pattern)
    if adjacency.is_one_character():
        return NormalizerStep(affects=_never, apply=apply)
    return NormalizerStep(affects=lambda x, y: adjacency.may_match(x) or adjacency.may_match(y), apply=apply)


def _normalizer(config: Config) -> Callable[[str], str]:
    """Return the library's own normalizer, for single characters."""
    from tokenizers import Tokenizer

    model = {"type": "BPE", "vocab": {}, "merges": []}
    found = Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "normalizer": config, "model": model}))
    normalize: Callable[[str], str] = found.normalizer.normalize_str
    return normalize


def piece_steps(config: Config) -> list[PieceStep]:
    """Model one pre-tokenizer."""
    match config["type"]:
        case "Split":
            kind, pattern = next(iter(config["pattern"].items()))
            adjacency = Adjacency(_escape(pattern) if kind == "String" else pattern)
            return [_by_pattern(adjacency, config["behavior"])]
        case "ByteLevel":
            steps = [_by_pattern(Adjacency(BYTE_LEVEL), "Isolated")] if config.get("use_regex", True) else []
            bytes_step = PieceStep(affects=_never, cuts=_never, apply=_as_byte_characters)
            return [*_prefix_step(config["add_prefix_space"], " "), *steps, bytes_step]
        case "Metaspace":
            mark = config["replacement"]
            return [
                *_prefix_step(config["prepend_scheme"] != "never", " " + mark),
                PieceStep(
                    affects=_never,
                    cuts=(lambda x, y: y in (" ", mark)) if config["split"] else _never,
                    apply=lambda char: mark if char == " " else char,
                ),
            ]
        case "Whitespace":
            return [_by_pattern(Adjacency(r"\w+|[^\w\s]+"), "Removed")]
        case "WhitespaceSplit":
            return [_by_character(charclass.is_space)]
        case "BertPreTokenizer":
            return [_by_character(charclass.is_space), _by_character(charclass.is_bert_punctuation)]
        case "Punctuation":
            return [_by_character(charclass.is_bert_punctuation, config["behavior"])]
        case "Digits":
            return [_by_character(charclass.is_numeric, "Isolated" if config["individual_digits"] else "Contiguous")]
    raise ValueError(f"the pre-tokenizer {config['type']} is not modelled")


def _by_pattern(adjacency: Adjacency, behavior: str) -> PieceStep:
    """Cut before and behind each match: one that holds x ends at the point, since none holds both."""

    def cuts(x: str, y: str) -> bool:
        return adjacency.always_matches(x) or adjacency.always_matches(y)

    return PieceStep(affects=adjacency.may_join, cuts=cuts if behavior in ("Isolated", "Removed") else _never)


def _by_character(test: CharTest, behavior: str = "Isolated") -> PieceStep:
    """Cut around each character that fits, or around runs of them."""
    if behavior == "Contiguous":
        return PieceStep(affects=_never, cuts=lambda x, y: {test(x), test(y)} == {True, False})
    if behavior not in ("Isolated", "Removed"):  # merged with a neighbour
        return PieceStep(affects=_never, cuts=_never)
    return PieceStep(affects=_never, cuts=lambda x, y: test(x) is True or test(y) is True)


def _prefix_step(prefixed: bool, starts: str) -> list[PieceStep]:
    """A space is put in front of text that has none there: the right part must have one."""
    return [PieceStep(affects=lambda x, y: y not in starts, cuts=_never)] if prefixed else []


def _as_byte_characters(char: str) -> str:
    """Return the characters that stand for a character's bytes in byte-level vocabularies."""
    from tokenizers import pre_tokenizers

    ((mapped, _),) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(char)
    return mapped


def _never(x: str, y: str) -> bool:
    return False


def _escape(text: str) -> str:
    return "".join(char if char.isalnum() or not char.isascii() else "\\" + char for char in text)


def model_joins(model: Config) -> Callable[[str, str], bool]:
    """Return whether the model may join x and y when they stand in one piece.

    BPE joins them only into a token that holds them next to each other. Other models are taken to always do.
    """
    vocabulary: dict[str, int] = model["vocab"] if model["type"] == "BPE" else {}
    whole_pieces_matter = any(model.get(key) for key in ("continuing_subword_prefix", "end_of_word_suffix"))
    fused_bytes = any(token.count("<0x") > 1 for token in vocabulary)
    if not vocabulary or whole_pieces_matter or fused_bytes or model.get("ignore_merges"):
        return lambda x, y: True
    neighbours = {pair for token in vocabulary for pair in pairwise(token)}
    fallback = model.get("byte_fallback") and all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))

    def joins(x: str, y: str) -> bool:
        # characters unknown to it become unknown tokens, which may be fused
        known = fallback or (x in vocabulary and y in vocabulary)
        return not known or (x, y) in neighbours

    return joins
