"""The canary of a tokenizer: is it the one that a corpus was made with?

Its fingerprint tells where the corpus keeps one. And documents are tried: their ids are decoded and encoded again,
which gives the same ids where they are this tokenizer's, and others where they are not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.converters.engines import TokenizerSpec, load_tokenizer
from tokenyard.converters.engines.choose import build_truth
from tokenyard.display.quantities import percent
from tokenyard.looking.decoding import Decoder
from tokenyard.preflight.contents import Contents
from tokenyard.preflight.provenance import tokenized
from tokenyard.preflight.report import Line, failed, passed, warned
from tokenyard.schema import Schema

#: The share of ids that come back from text, from which on they are this tokenizer's, and below which they are not.
#: What is lost stands where a piece was cut; of another tokenizer of the same kind a third comes back.
_SAME, _OTHER = 0.97, 0.85


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How documents came back: how many, how many of them as they were, and the share of ids that did."""

    documents: int
    same: int
    share: float

    @property
    def told(self) -> str:
        """In words."""
        return (
            f"of {self.documents} documents decoded and encoded again {self.same} are the same, and "
            f"{percent(self.share)} of all ids"
        )


def tokenizer_for(name: str | os.PathLike[str], schema: Schema | None = None) -> TokenizerSpec:
    """Load a tokenizer, with the marks that a schema says, as whoever made the corpus gave them.

    A tokenizer.json names none, and what is named is part of the fingerprint. Raises as ``load_tokenizer`` does.
    """
    spec = load_tokenizer(name)
    if schema is None:
        return spec
    wanted = {"eos_token": (schema.eos_token_id, spec.eos_id), "bos_token": (schema.bos_token_id, spec.bos_id)}
    given: dict[str, Any] = {}
    for mark, (number, own) in wanted.items():
        if number is not None and number != own and number <= spec.max_id:
            token = spec.tokenizer.convert_ids_to_tokens(number)
            given |= {mark: token} if isinstance(token, str) else {}
    return load_tokenizer(name, **given) if given else spec


def tokenizer_line(contents: Contents, spec: TokenizerSpec, source: str | None) -> Line:
    """Compare a tokenizer with what a corpus says of its own, and with its ids."""
    known = contents.corpus.schema.tokenizer
    agreement = agreement_with(spec, tokenized(contents.corpus).special_text or "encode", contents.pieces)
    tried = agreement.told if agreement.documents else "no document to try it on"
    way_out = f"name the tokenizer that the corpus was made with, or tokenize it with {spec.name}"
    if known == spec.fingerprint:
        found = f"the fingerprint is the corpus's, {known[:12]}; {tried}"
        if agreement.documents and agreement.share < _OTHER:
            return warned(
                "tokenizer",
                found,
                "the ids are no text of this tokenizer: look at some by tokenyard peek --tokenizer",
                source=source,
            )
        return passed("tokenizer", found, source=source)
    differing = _differing(contents.corpus.schema, spec)
    told = f"the fingerprint is {spec.fingerprint[:12]}, the corpus's {known[:12]}; {differing}{tried}" if known else ""
    if not agreement.documents:
        return warned(
            "tokenizer", told or f"the corpus keeps no fingerprint; {differing}{tried}", way_out, source=source
        )
    if agreement.share < _OTHER:
        return failed("tokenizer", f"another tokenizer's ids: {told or differing + tried}", way_out, source=source)
    if agreement.share < _SAME or differing:
        return warned("tokenizer", f"maybe another tokenizer: {told or differing + tried}", way_out, source=source)
    if known:
        return warned(
            "tokenizer",
            f"another file, though the ids agree: {told}",
            "name the file that the corpus was made with, to be sure",
            source=source,
        )
    return passed("tokenizer", f"the corpus keeps no fingerprint; {tried}", source=source)


def agreement_with(spec: TokenizerSpec, special_text: Any, pieces: Sequence[NDArray[np.int64]]) -> Agreement:
    """Decode documents and encode their text again."""
    decoder = Decoder(spec)
    texts = [decoder.text(piece.tolist()) for piece in pieces]
    encoded = build_truth(spec, special_text).encode_batch(texts).split() if texts else []
    same = matched = of = 0
    for piece, again in zip(pieces, encoded, strict=True):
        a, b = piece.tolist(), again.tolist()
        same += a == b
        matched += sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
        of += max(len(a), len(b))
    return Agreement(documents=len(pieces), same=same, share=matched / max(1, of))


def _differing(schema: Schema, spec: TokenizerSpec) -> str:
    """What the schema says otherwise than the tokenizer, in words that end with a semicolon; "" for nothing."""
    pairs = {
        "vocab_size": (schema.vocab_size, spec.max_id + 1),
        "eos_token_id": (schema.eos_token_id, spec.eos_id),
        "bos_token_id": (schema.bos_token_id, spec.bos_id),
    }
    told = [
        f"{name} is {theirs}, the corpus's {ours}"
        for name, (ours, theirs) in pairs.items()
        if None not in (ours, theirs) and ours != theirs
    ]
    return "; ".join(told) + "; " * bool(told)
