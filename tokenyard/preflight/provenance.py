"""What a corpus's manifest says of how its documents were tokenized, however many jobs came since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenyard.corpus import Corpus


@dataclass(frozen=True, kw_only=True)
class Tokenized:
    """What `tokenize` was asked for; None where nobody knows.

    Attributes:
        add_bos: whether documents begin with BOS.
        add_eos: whether they end with EOS.
        special_text: what text of special tokens became.
    """

    add_bos: bool | None = None
    add_eos: bool | None = None
    special_text: str | None = None


def tokenized(corpus: Corpus) -> Tokenized:
    """Follow the provenance back to the job that tokenized; of a merge nothing is known."""
    said: Any = corpus.manifest.provenance
    while isinstance(said, Mapping):
        if said.get("job") == "tokenize" and isinstance(options := said.get("options"), Mapping):
            return Tokenized(
                add_bos=options.get("add_bos"),
                add_eos=options.get("add_eos"),
                special_text=options.get("special_text"),
            )
        source = said.get("source")
        said = source.get("provenance") if isinstance(source, Mapping) else None
    return Tokenized()
