"""From documents to rows: encoded in batches, marked by our policy alone, and a share proven against transformers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tokenyard.converters.engines import Encoded, Engine, EngineName, SpecialText, TokenizerSpec, build_engine
from tokenyard.converters.text import Document
from tokenyard.errors import VerificationError
from tokenyard.rows import Array, Column, Offsets, RowBatch, offsets_of
from tokenyard.schema import Schema

_BATCH_CHARACTERS = 1 << 20
_BATCH_DOCUMENTS = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoding:
    """How documents become ids; sent to every worker."""

    spec: TokenizerSpec
    engine: EngineName
    special_text: SpecialText
    add_bos: bool
    add_eos: bool
    prove_share: float


def encode_documents(
    encoding: Encoding, documents: Iterable[Document], schema: Schema, counts: dict[str, int]
) -> Iterator[RowBatch]:
    """Yield the documents as rows, in order, and add to ``counts`` what was found and proven.

    Raises VerificationError with the document's place when the engine's ids are not those of transformers.
    """
    engine = _engine(encoding, encoding.engine)
    prover = _Prover(encoding)
    for batch in _batches(documents):
        texts = [d.text for d in batch]
        encoded = engine.encode_batch(texts)
        prover.prove(batch, encoded, counts)
        _count_special_text(encoding.spec, texts, counts)
        tokens, offsets = _with_marks(encoding, encoded)
        fields = {n: Column.from_values(n, t, [d.fields[n] for d in batch]) for n, t in schema.fields.items()}
        yield RowBatch(tokens=tokens, offsets=offsets, fields=fields)


@lru_cache(maxsize=2)
def _engine(encoding: Encoding, name: EngineName) -> Engine:
    return build_engine(name, encoding.spec, encoding.special_text)


class _Prover:
    """Encodes every n-th document of a task again with transformers, the first one included."""

    def __init__(self, encoding: Encoding) -> None:
        self._every = round(1 / encoding.prove_share) if encoding.prove_share else 0
        self._truth = _engine(encoding, "transformers") if self._every and encoding.engine != "transformers" else None
        self._engine_name = encoding.engine
        self._seen = 0

    def prove(self, batch: list[Document], encoded: Encoded, counts: dict[str, int]) -> None:
        first = -self._seen % self._every if self._every else 0
        self._seen += len(batch)
        if self._truth is None:
            return
        chosen = range(first, len(batch), self._every)
        found = encoded.split()
        for i, ids in zip(chosen, self._truth.encode_batch([batch[i].text for i in chosen]).split(), strict=True):
            if not np.array_equal(ids, found[i]):
                raise VerificationError(
                    f"{batch[i].place}: {self._engine_name} gives other ids than transformers "
                    f"({_difference(found[i], ids)}); run again with engine=transformers (--engine transformers)"
                )
        counts["proven"] = counts.get("proven", 0) + len(chosen)


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if characters >= _BATCH_CHARACTERS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _with_marks(encoding: Encoding, encoded: Encoded) -> tuple[Array, Offsets]:
    """The ids with BOS before and EOS after each document, as the policy says, and the offsets of the rows."""
    offsets = offsets_of(encoded.lengths)
    tokens: Array = encoded.ids
    places, marks = [], []
    if encoding.add_bos and encoding.spec.bos_id is not None:
        places.append(offsets[:-1])
        marks.append(np.full(len(encoded.lengths), encoding.spec.bos_id, tokens.dtype))
    if encoding.add_eos and encoding.spec.eos_id is not None:
        places.append(offsets[1:])
        marks.append(np.full(len(encoded.lengths), encoding.spec.eos_id, tokens.dtype))
    if not places:
        return tokens, offsets
    # One after another and not at once: where a document is empty, BOS and EOS go to the same place, in this order.
    order = np.argsort(np.concatenate([2 * np.arange(len(p)) + n for n, p in enumerate(places)]), kind="stable")
    tokens = np.insert(tokens, np.concatenate(places)[order], np.concatenate(marks)[order])
    return tokens, offsets + len(places) * np.arange(len(offsets))


def _count_special_text(spec: TokenizerSpec, texts: list[str], counts: dict[str, int]) -> None:
    """Count the documents in which the text of a special token stands."""
    whole = "\0".join(texts)
    for token in spec.special_tokens:
        if token in whole:
            found = sum(token in text for text in texts)
            if found:
                counts[f"special:{token}"] = counts.get(f"special:{token}", 0) + found


def _difference(found: Array, wanted: Array) -> str:
    shared = min(len(found), len(wanted))
    different = np.flatnonzero(found[:shared] != wanted[:shared])
    at = int(different[0]) if len(different) else shared
    return f"from token {at} on: {found[at : at + 5].tolist()} against {wanted[at : at + 5].tolist()}"
