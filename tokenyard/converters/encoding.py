"""From documents to rows: encoded in batches, marked by our policy alone, and a share proven against transformers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import floor
from multiprocessing import parent_process

import numpy as np

from tokenyard.converters.engines import (
    CutLimits,
    CutRule,
    Encoded,
    Engine,
    EngineName,
    NoCutRule,
    SpecialText,
    SpecialTextFinder,
    TokenizerSpec,
    Uncuttable,
    build_engine,
    build_truth,
    cut_document,
    derive_cut_rule,
    encode_parts,
    find_disagreement,
    limit_threads,
)
from tokenyard.converters.text import BadRecord, Document, place_in_file
from tokenyard.errors import VerificationError
from tokenyard.rows import Array, Column, Offsets, RowBatch, cast_tokens, offsets_of
from tokenyard.schema import Schema

_BATCH_CHARACTERS = 1 << 21
_BATCH_DOCUMENTS = 2048
_WHOLE_CHARACTERS = CutLimits().whole_chars


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoding:
    """How documents become ids; sent to every worker."""

    spec: TokenizerSpec
    engine: EngineName
    special_text: SpecialText
    add_bos: bool
    add_eos: bool
    prove_share: float


@dataclass(frozen=True, kw_only=True)
class CutDocument:
    """A document and the parts it is encoded in; a short one is its own only part."""

    document: Document
    parts: tuple[str, ...]


def cut(encoding: Encoding, document: Document) -> CutDocument | BadRecord:
    """Cut a long document where a cut is proven not to change its ids; a bad record where there is no such place."""
    if len(document.text) <= _WHOLE_CHARACTERS:
        return CutDocument(document=document, parts=(document.text,))
    parts = cut_document(document.text, _cut_rule(encoding))
    if isinstance(parts, Uncuttable):
        return BadRecord(kind="too_long", place=document.place, message=parts.message)
    return CutDocument(document=document, parts=parts)


def encode_documents(
    encoding: Encoding, documents: Iterable[CutDocument], schema: Schema, counts: dict[str, int]
) -> Iterator[RowBatch]:
    """Yield the documents as rows, in order, and add to ``counts`` what was found and proven.

    Raises VerificationError with the document's place when the engine's ids are not those of transformers, SchemaError
    with the row, counted from the first document, for an id that the schema's token dtype can't hold.
    """
    first_row = 0
    engine = _engine(encoding, encoding.engine)
    special = SpecialTextFinder(encoding.spec)
    prover = _Prover(encoding)
    for batch in _batches(documents):
        encoded = encode_parts(engine, [d.parts for d in batch])
        prover.prove(batch, encoded, counts)
        for document in batch:
            for token, count in special.count(document.document.text).items():
                counts[f"special:{token}"] = counts.get(f"special:{token}", 0) + count
        # cast first: half the bytes to move
        ids = cast_tokens(encoded.ids, offsets_of(encoded.lengths), schema.token_dtype, first_row)
        first_row += len(batch)
        tokens, offsets = _with_marks(encoding, ids, encoded.lengths)
        fields = {n: Column.from_values(n, t, [d.document.fields[n] for d in batch]) for n, t in schema.fields.items()}
        yield RowBatch(tokens=tokens, offsets=offsets, fields=fields)


@lru_cache(maxsize=2)
def _engine(encoding: Encoding, name: EngineName) -> Engine:
    if parent_process() is not None:
        limit_threads()  # a worker has one core
    return build_engine(name, encoding.spec, encoding.special_text)


@lru_cache(maxsize=1)
def _cut_rule(encoding: Encoding) -> CutRule | NoCutRule:
    return derive_cut_rule(encoding.spec, build_truth(encoding.spec, encoding.special_text))


class _Prover:
    """Encodes every n-th document of a task again with transformers, the first one included."""

    def __init__(self, encoding: Encoding) -> None:
        self._every = floor(1 / max(encoding.prove_share, 1e-12)) if encoding.prove_share else 0
        self._truth = _engine(encoding, "transformers") if self._every and encoding.engine != "transformers" else None
        self._engine_name = encoding.engine
        self._seen = 0

    def prove(self, batch: list[CutDocument], encoded: Encoded, counts: dict[str, int]) -> None:
        first = -self._seen % self._every if self._every else 0
        self._seen += len(batch)
        if self._truth is None or first >= len(batch):
            return
        chosen = np.arange(first, len(batch), self._every)
        some = _take(encoded, chosen)
        found = find_disagreement(some, self._engine_name, self._truth, [batch[i].parts for i in chosen])
        if found is not None:
            number, disagreement = found
            place = place_in_file(batch[chosen[number]].document.place)
            raise VerificationError(
                f"{place}: {disagreement}; run again with engine=transformers (--engine transformers)"
            )
        counts["proven"] = counts.get("proven", 0) + len(chosen)


def _take(encoded: Encoded, chosen: Array) -> Encoded:
    """The ids of some of the documents."""
    offsets = offsets_of(encoded.lengths)
    ids = np.concatenate([encoded.ids[:0], *[encoded.ids[offsets[i] : offsets[i + 1]] for i in chosen]])
    return Encoded(ids=ids, lengths=encoded.lengths[chosen])


def _batches(documents: Iterable[CutDocument]) -> Iterator[list[CutDocument]]:
    batch: list[CutDocument] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.document.text)
        if characters >= _BATCH_CHARACTERS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _with_marks(encoding: Encoding, tokens: Array, lengths: Array) -> tuple[Array, Offsets]:
    """The ids with BOS before and EOS after each document, as the policy says, and the offsets of the rows."""
    offsets = offsets_of(lengths)
    places, marks = [], []
    if encoding.add_bos and encoding.spec.bos_id is not None:
        places.append(offsets[:-1])
        marks.append(np.full(len(lengths), encoding.spec.bos_id, tokens.dtype))
    if encoding.add_eos and encoding.spec.eos_id is not None:
        places.append(offsets[1:])
        marks.append(np.full(len(lengths), encoding.spec.eos_id, tokens.dtype))
    if not places:
        return tokens, offsets
    # One after another and not at once: where a document is empty, BOS and EOS go to the same place, in this order.
    order = np.argsort(np.concatenate([2 * np.arange(len(p)) + n for n, p in enumerate(places)]), kind="stable")
    tokens = np.insert(tokens, np.concatenate(places)[order], np.concatenate(marks)[order])
    return tokens, offsets + len(places) * np.arange(len(offsets))
