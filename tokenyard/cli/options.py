"""Options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tokenyard.looking.decoding import Decoder

Source = Annotated[str, typer.Argument(metavar="PATH", help="A corpus: a folder, a file, or a URL.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Read = Annotated[
    list[str] | None,
    typer.Option(
        "--read", metavar="KEY=VALUE", help="What a corpus of others doesn't say: tokens, token_dtype, split ..."
    ),
]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", "-t", help="Name, folder or tokenizer.json, to show ids as text.")
]


def decoder_of(tokenizer: str | None) -> Decoder | None:
    """What gives the text of ids, where a tokenizer is named. Raises what loading it raises."""
    if tokenizer is None:
        return None
    from tokenyard.looking.decoding import Decoder

    return Decoder.load(tokenizer)
