"""The canary of a tokenizer: is it the one that a corpus was made with?

Its fingerprint tells where the corpus keeps one. And documents are tried: their ids are decoded and encoded again. Of
this tokenizer's own documents nearly all come back as they were; of another's few, and these are short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.converters.engines import TokenizerSpec, load_tokenizer
from tokenyard.converters.engines.base import SpecialText
from tokenyard.converters.engines.truth import TransformersEngine
from tokenyard.looking.decoding import Decoder
from tokenyard.preflight.contents import Contents, Piece
from tokenyard.preflight.provenance import tokenized
from tokenyard.preflight.report import Line, failed, passed, warned
from tokenyard.schema import Schema

#: The share of documents that come back, from which on they are this tokenizer's, and below which they are not.
_SAME, _OTHER = 0.9, 0.75
#: Ids where a document was cut, which may be others, and more or fewer, than those of its text.
_AT_CUT = 8


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How many documents were tried, and how many came back as they were."""

    documents: int
    same: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.same / max(1, self.documents)

    @property
    def told(self) -> str:
        """In words."""
        if not self.documents:
            return "no document to try it on"
        return f"of {self.documents} documents decoded and encoded again {self.same} are the same"


def with_marks(spec: TokenizerSpec, schema: Schema) -> TokenizerSpec:
    """Return a tokenizer with the marks that a schema says, as whoever made the corpus gave them.

    A tokenizer.json names none, and what is named is part of the fingerprint. Raises as ``load_tokenizer`` does.
    """
    wanted = {"eos_token": (schema.eos_token_id, spec.eos_id), "bos_token": (schema.bos_token_id, spec.bos_id)}
    given: dict[str, Any] = {}
    for mark, (number, own) in wanted.items():
        if number is not None and number != own and number <= spec.max_id:
            token = spec.tokenizer.convert_ids_to_tokens(number)
            given |= {mark: token} if isinstance(token, str) else {}
    return load_tokenizer(spec.name, **given) if given else spec


def tokenizer_line(contents: Contents, spec: TokenizerSpec, source: str | None) -> Line:
    """Compare a tokenizer with what a corpus says of its own, and with its ids."""
    known = contents.corpus.schema.tokenizer
    special_text: SpecialText = "plain" if tokenized(contents.corpus).special_text == "plain" else "encode"
    agreement = agreement_with(spec, special_text, contents.pieces)
    tried = agreement.told
    way_out = f"name the tokenizer that the corpus was made with, or tokenize it with {spec.name}"
    if known == spec.fingerprint:
        found = f"the fingerprint is the corpus's, {known[:12]}; {tried}"
        if agreement.documents and agreement.share < _SAME:
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


def agreement_with(spec: TokenizerSpec, special_text: SpecialText, pieces: Sequence[Piece]) -> Agreement:
    """Decode documents and encode their text again."""
    tried = _without_common_ends(pieces)
    decoder, truth = Decoder(spec), TransformersEngine(spec, special_text, use_backend=False)
    encoded = truth.encode_batch([decoder.text(piece.ids.tolist()) for piece in tried]).split() if tried else []
    same = sum(map(_is_same, tried, encoded))
    return Agreement(documents=len(tried), same=same)


def _is_same(piece: Piece, again: NDArray[np.uint32]) -> bool:
    """Whether ids came back: all, or where the document was cut those that are far from there."""
    start = 0 if piece.has_begin else min(_AT_CUT, len(piece.ids) // 4)
    stop = len(piece.ids) if piece.has_end else len(piece.ids) - min(_AT_CUT, len(piece.ids) // 4)
    if piece.has_begin and piece.has_end:
        return np.array_equal(piece.ids, again)
    shifts = range(1) if piece.has_begin else range(-start, _AT_CUT + 1)
    return any(np.array_equal(piece.ids[start:stop], again[start + by : stop + by]) for by in shifts)


def _without_common_ends(pieces: Sequence[Piece]) -> list[Piece]:
    """Leave out the first and the last id where most documents share it: a mark that nobody named."""
    first = _common([int(piece.ids[0]) for piece in pieces if piece.has_begin])
    last = _common([int(piece.ids[-1]) for piece in pieces if piece.has_end])
    found = []
    for piece in pieces:
        ids = piece.ids[int(piece.has_begin and piece.ids[0] == first) :]
        ids = ids[: len(ids) - int(piece.has_end and len(ids) > 0 and ids[-1] == last)]
        found.append(replace(piece, ids=ids))
    return [piece for piece in found if len(piece.ids) > 1]


def _common(ids: Sequence[int]) -> int | None:
    """The id that most of some are, if one is."""
    ((number, count),) = Counter(ids).most_common(1) or [(0, 0)]
    return number if 2 * count > len(ids) > 1 else None


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
