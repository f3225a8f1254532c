"""Points at which a long text may be cut without any change to its ids, and why that is so.

`tokenizers` needs 42 s and 5.6 GB for one document of 18 MB; in parts, with GPT-2's, 10 s and 60 MB, its ids among
them. A cut between the characters x and y changes no id when, for the tokenizer at hand,

1. no added token touches the point (`added.py`): then the same added tokens are found on both sides;
2. no normalizer step looks across it: then the normalized parts are the parts of the normalized text;
3. no pre-tokenizer step does. For a pattern without lookbehind and anchors, every search that has consumed x stops in
   front of y as it does at the end of a text (`pattern.py`). So it takes the same steps with and without the cut, and
   the pieces are the same, but that the cut itself may end one;
4. and that it does not: some step ends a piece there in the whole text too, or the model is a BPE without any token
   that holds x and y next to each other, so that no merge ever joins them.

This is read off the tokenizer.json, step by step; a step that is not modelled gives no rule, never a wrong one. Where
text gets a prefix (Llama 2: `Prepend`), the part behind a cut at a space leaves the space out, and gets it back as its
prefix. As a second look, the rule is tried on the canary strings with the tokenizer itself, once for a tokenizer and
the versions of all packages involved.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenyard.converters.engines.added import AddedTokens
from tokenyard.converters.engines.base import Engine
from tokenyard.converters.engines.canary import short_canary
from tokenyard.converters.engines.spec import TokenizerSpec
from tokenyard.converters.engines.stages import (
    PieceStep,
    in_sequence,
    is_plain,
    model_joins,
    normalizer_step,
    piece_steps,
)
from tokenyard.converters.engines.truth import TransformersEngine
from tokenyard.converters.engines.verdict import wrong_cut_of

_CUTS_A_CANARY = 4
_CANARY_CHARS = 600
_UNICODE_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


@dataclass(frozen=True, kw_only=True)
class NoCutRule:
    """No cut is proven for this tokenizer, and why."""

    reason: str

    def resume(self, text: str, point: int) -> int | None:
        """Return None: nowhere."""
        return None


class CutRule:
    """Where a text may be cut. Made by `derive_cut_rule`, in each process anew: it can't be pickled."""

    def __init__(self, tokenizer_json: dict[str, Any], normalize: Callable[[str], str] | None) -> None:
        """Read the rule off a tokenizer.json; ValueError for what is not modelled."""
        normalizers = in_sequence(tokenizer_json["normalizer"], "normalizers")
        self._prefix: str | None = None
        if normalizers and normalizers[0]["type"] == "Prepend":
            self._prefix = normalizers.pop(0)["prepend"]
        self._normalizers = [normalizer_step(config) for config in normalizers]
        if self._prefix is not None and self._normalized(" ") != self._normalized(self._prefix):
            raise ValueError(f"the prefix {self._prefix!r} is not what a space becomes")
        self._only_plain = any(config["type"] not in ("Replace", "Lowercase") for config in normalizers)
        self._pieces = _piece_steps(tokenizer_json["pre_tokenizer"])
        self._joins = model_joins(tokenizer_json["model"])
        keeps_ascii = self._prefix is None and all(config["type"] in _UNICODE_FORMS for config in normalizers)
        self._added = AddedTokens(tokenizer_json["added_tokens"], normalize, keeps_ascii)
        self._known: dict[str, str | None] = {}

    def resume(self, text: str, point: int) -> int | None:
        """Return where the part behind a cut at `point` begins: there, or one space further on; None for no cut.

        0 < point < len(text).
        """
        y = text[point]
        pair = text[point - 1] + y
        if pair not in self._known:
            self._known[pair] = self._around(*pair)
        around = self._known[pair]
        if around is None:
            return None
        if self._only_plain and point + 1 < len(text) and not is_plain(text[point + 1]):
            return None
        if not self._added.allow(text, point, *around):
            return None
        if self._prefix is None:
            return point
        # the rest must be there to get its prefix, and must not begin with an added token, in front of which is none
        behind = point + 1
        return behind if y == " " and behind < len(text) and self._added.allow(text, behind, *around) else None

    def _around(self, x: str, y: str) -> str | None:
        """Return the normalized characters at a point between x and y if it may be cut as far as they decide."""
        if self._only_plain and not (is_plain(x) and is_plain(y)):
            return None
        for step in self._normalizers:
            if step.affects(x, y):
                return None
            left, right = step.apply(x), step.apply(y)
            if not left or not right:
                return None
            x, y = left[-1], right[0]
        around = x + y
        is_cut = False
        for piece_step in self._pieces:
            if piece_step.affects(x, y):
                return None
            is_cut = is_cut or piece_step.cuts(x, y)
            x, y = piece_step.apply(x)[-1], piece_step.apply(y)[0]
        return around if is_cut or not self._joins(x, y) else None

    def _normalized(self, text: str) -> str:
        for step in self._normalizers:
            text = step.apply(text)
        return text


def derive_cut_rule(spec: TokenizerSpec, truth: TransformersEngine) -> CutRule | NoCutRule:
    """Return the rule for a tokenizer, tried on the canary strings; or why there is none.

    It holds for `special_text` encode and plain, and for every engine whose ids are those of transformers.
    """
    if spec.json is None:
        return NoCutRule(reason=f"{spec.name} is a slow tokenizer, whose steps can't be read")
    if not truth.uses_backend:
        return NoCutRule(reason=f"{type(spec.tokenizer).__name__} does more than its tokenizer.json says")
    normalizer = spec.tokenizer.backend_tokenizer.normalizer
    try:
        rule = CutRule(json.loads(spec.json), normalizer.normalize_str if normalizer is not None else None)
    except ValueError as error:
        return NoCutRule(reason=f"no cut is proven for {spec.name}: {error}")
    texts = short_canary(spec)
    wrong = wrong_cut_of(truth, spec, texts, lambda: _find_wrong_cut(rule, truth, texts))
    if wrong is not None:
        return NoCutRule(reason=f"cuts of {spec.name} were thought to be safe, but {wrong} is encoded otherwise")
    return rule


def _piece_steps(config: dict[str, Any] | None) -> list[PieceStep]:
    configs = in_sequence(config, "pretokenizers")
    for inner in configs[:-1]:
        if inner["type"] in ("ByteLevel", "Metaspace"):
            raise ValueError(f"the pre-tokenizer {inner['type']} in front of another is not modelled")
    return [step for each in configs for step in piece_steps(each)]


def _find_wrong_cut(rule: CutRule, truth: Engine, texts: list[str]) -> str | None:
    """Encode texts whole and in two parts, at a few cuts each; return the first that shows, as the two parts."""
    whole: list[str] = []
    parts: list[str] = []
    for text in (text for text in texts if len(text) <= _CANARY_CHARS):
        found = [(point, at) for point in range(1, len(text)) if (at := rule.resume(text, point)) is not None]
        for point, at in found[:: max(1, len(found) // _CUTS_A_CANARY)]:
            whole.append(text)
            parts += [text[:point], text[at:]]
    expected = truth.encode_batch(whole).split()
    found_ids = truth.encode_batch(parts).split()
    for number, ids in enumerate(expected):
        if not np.array_equal(ids, np.concatenate(found_ids[2 * number : 2 * number + 2])):
            return " | ".join(map(repr, parts[2 * number : 2 * number + 2]))
    return None
