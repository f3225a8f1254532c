"""A loaded tokenizer, and the facts of it that a corpus keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from blake3 import blake3

from tokenyard.cached import cached_property


@dataclass(frozen=True, kw_only=True)
class TokenizerSpec:
    """A tokenizer as `load_tokenizer` gives it: truncation and padding are off, and it gives ids.

    name: what was asked for.
    tokenizer: the transformers object, or a BackendTokenizer in its place. It can be pickled.
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

    def without_transformers(self) -> TokenizerSpec:
        """Return the spec with the backend alone, which a worker process has at once: transformers takes it a second.

        For a tokenizer whose object was seen to give what its backend gives (`TransformersEngine.uses_backend`).
        """
        if self.json is None:
            raise ValueError(f"{self.name} is a slow tokenizer, which has no backend")
        ends = {key: self.tokenizer.special_tokens_map.get(key) for key in ("bos_token", "eos_token")}
        return replace(self, tokenizer=BackendTokenizer(json=self.json, **ends))


@dataclass(frozen=True, kw_only=True)
class BackendTokenizer:
    """The backend of a transformers tokenizer, made of its tokenizer.json when it is first needed."""

    json: str = field(repr=False)
    bos_token: str | None
    eos_token: str | None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the object behind: others make their own, of the same text."""
        return {"json": self.json, "bos_token": self.bos_token, "eos_token": self.eos_token}

    @cached_property
    def backend_tokenizer(self) -> Any:
        """The object of `tokenizers`, as transformers calls it."""
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.json)


def canonical_json(tokenizer_json: str) -> str:
    """Return a tokenizer.json with sorted keys, no white space, and neither truncation nor padding."""
    found = json.loads(tokenizer_json)
    found["truncation"] = found["padding"] = None
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(content: str) -> str:
    """Return the BLAKE3 of a text, as hex."""
    return blake3(content.encode()).hexdigest()
