"""A loaded tokenizer, and the facts of it that a corpus keeps."""

import json
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3


@dataclass(frozen=True, kw_only=True)
class TokenizerSpec:
    """A tokenizer as `load_tokenizer` gives it: truncation and padding are off, and it gives ids.

    name: what was asked for.
    tokenizer: the transformers object. It can be pickled.
    json: its tokenizer.json in canonical form; None for a slow tokenizer, which has none.
    fingerprint: BLAKE3, in hex, of `json`, or of what defines a slow tokenizer.
    vocab_size: how many tokens there are. Not the largest id plus one: ids may have gaps.
    max_id: the largest id that it can emit, added tokens included.
    special_tokens, added_tokens: the strings that stand for one token wherever they occur in a text. Special
        ones are taken as plain text under `special_text: plain`; the others never are.
    warnings: what the user should know.
    """

    name: str
    tokenizer: Any = field(repr=False, compare=False)
    json: str | None = field(repr=False)
    fingerprint: str
    vocab_size: int
    max_id: int
    eos_id: int | None
    bos_id: int | None
    special_tokens: tuple[str, ...]
    added_tokens: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def canonical_json(tokenizer_json: str) -> str:
    """Return a tokenizer.json with sorted keys, no white space, and neither truncation nor padding."""
    found = json.loads(tokenizer_json)
    found["truncation"] = found["padding"] = None
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(content: str) -> str:
    """Return the BLAKE3 of a text, as hex."""
    return blake3(content.encode()).hexdigest()
