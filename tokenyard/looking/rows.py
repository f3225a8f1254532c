"""Rows of a corpus made ready to be shown: where their documents begin, what is masked, which ids are marks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.shown import ShownRow, Stretch, show, told_value

#: The label of a token that isn't trained on, as torch and transformers have it.
_IGNORED = -100


def marks(corpus: Corpus, decoder: Decoder | None) -> dict[int, str]:
    """The ids that are no text: those that the corpus names, and the tokenizer's special and added tokens."""
    found: dict[int, str] = {}
    named = [
        ("bos", corpus.schema.bos_token_id),
        ("eos", corpus.schema.eos_token_id),
        ("pad", corpus.layout.pad_token_id),
    ]
    if decoder is not None:
        named += [("bos", decoder.bos_id), ("eos", decoder.eos_id), ("pad", decoder.pad_id)]
    for name, number in named:
        if number is not None and name not in found.get(number, "").split(", "):
            found[number] = f"{found[number]}, {name}" if number in found else name
    for number in () if decoder is None else decoder.special:
        found.setdefault(number, "added")
    return found


def show_row(
    corpus: Corpus,
    row: int,
    *,
    max_tokens: int,
    decoder: Decoder | None,
    special: Mapping[int, str],
    found: tuple[int, int] | None = None,
    at_edge: bool = False,
) -> ShownRow:
    """Show the beginning of a row, or what was found in it and some tokens around. Reads that row alone.

    ``found``: the first token of what was searched for, and the one after its last. ``at_edge``: show where the second
    document begins, if the beginning doesn't. Raises DataError, StorageError.
    """
    values = corpus.row(row)
    tokens = values.pop("tokens")
    stretches = documents(corpus, tokens, values)
    start = 0
    if found is not None:
        start = max(0, min(found[0] - max_tokens // 4, len(tokens) - max_tokens))
    elif at_edge and len(stretches) > 1 and stretches[0].stop >= max_tokens:
        start = max(0, min(stretches[0].stop - max_tokens // 2, len(tokens) - max_tokens))
    mask = mask_of(corpus, len(tokens), values)
    return show(
        f"row {row}",
        tokens,
        stretches,
        window=(start, start + max_tokens),
        decoder=decoder,
        special=special,
        mask=mask,
        found=found,
        fields={name: told_value(value) for name, value in values.items() if mask is None or name != mask[0]},
    )


def documents(corpus: Corpus, tokens: NDArray[Any], fields: Mapping[str, Any]) -> list[Stretch]:
    """Cut a row into its documents: by the lengths that packed rows carry, else after each EOS id of a packed row."""
    layout, eos, lengths = corpus.layout, corpus.schema.eos_token_id, fields.get(lengths_field(corpus) or "")
    padding = None
    if lengths is not None:
        ends = np.cumsum(lengths, dtype=np.int64)
        ends = np.minimum(np.maximum.accumulate(np.maximum(ends, 0)), len(tokens))
        told = int(ends[-1]) if len(ends) else 0
        if told < len(tokens) and layout.pad_token_id is not None:
            padding = Stretch(title=f"padding: {len(tokens) - told:,} tokens", start=told, stop=len(tokens))
        elif told < len(tokens):
            ends = np.append(ends, len(tokens))
    elif layout.kind == "packed" and eos is not None:
        ends = np.append(np.flatnonzero(tokens == eos) + 1, len(tokens))
    else:
        return [Stretch(title=None, start=0, stop=len(tokens))]
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    cut = [
        Stretch(title=f"document {number}: {stop - start:,} tokens", start=start, stop=stop)
        for number, (start, stop) in enumerate(zip(starts.tolist(), ends.tolist(), strict=False))
        if stop > start
    ]
    return [*cut, padding] if padding is not None else cut


def lengths_field(corpus: Corpus) -> str | None:
    """The field that tells the documents of packed rows, if it is one that can: a list of whole numbers."""
    name = corpus.layout.lengths_field
    told = None if name is None else corpus.schema.fields[name]
    return name if told is not None and told.is_list and told.dtype.kind in "iu" else None


def mask_of(corpus: Corpus, num_tokens: int, fields: Mapping[str, Any]) -> tuple[str, NDArray[np.bool_]] | None:
    """The field that says which tokens are trained on, and what it says.

    It has a value for each token: 0 and 1 alone, or labels, of which -100 is none. Of several the one that is called a
    mask.
    """
    found = []
    for name, value in fields.items():
        beside = isinstance(value, np.ndarray) and len(value) == num_tokens and value.dtype.kind in "biu"
        if not beside or not num_tokens or name == corpus.layout.lengths_field:
            continue
        if value.dtype.kind == "b" or ((value == 0) | (value == 1)).all():
            found.append((name, value != 0))
        elif (value == _IGNORED).any():
            found.append((name, value != _IGNORED))
    return min(found, key=lambda field: "mask" not in field[0], default=None)
