"""The command that shows rows: peek."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tokenyard.cli.options import Json, Read, Tokenizer, decoder_of
from tokenyard.cli.output import console, parse_options, print_json
from tokenyard.cli.row_views import print_row
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.errors import ConfigError, MissingDependencyError
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.rows import marks, show_row
from tokenyard.looking.search import Search, search
from tokenyard.looking.shown import ShownRow
from tokenyard.looking.steps import show_step, train_settings


def peek(
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A corpus: a folder, a file, or a URL; or give --config.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(metavar="N|A:B", help="The row to show, or rows A .. B-1; -1 is the last (0).")
    ] = None,
    num: Annotated[int | None, typer.Option(min=1, help="How many rows (1).")] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Show the next rows, from --row on, that hold a text; ids without -t."),
    ] = None,
    within: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="Tokens that --search looks through.")] = 1 << 22,
    step: Annotated[int | None, typer.Option(min=0, help="Show what a run takes at this step; needs --config.")] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="With --step: the slots of this rank alone.")] = None,
    world_size: Annotated[int | None, typer.Option(min=1, help="With --step: ranks that share the step (1).")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="With --step: YAML with the settings of the run.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens shown of each row.")] = 200,
    tokenizer: Tokenizer = None,
    read: Read = None,
    json: Json = False,
) -> None:
    """Show rows: ids, or with a tokenizer the text, every token's edges visible, documents apart, masked tokens dimmed.

    Example: `tokenyard peek data/corpus-mds --row 10 --tokenizer tokenizer.json`
    """
    _check(step, {"--rank": rank, "--world-size": world_size, "--config": config}, {"--row": row, "--search": search})
    if step is not None:
        if config is None:
            raise ConfigError("--step needs --config: which rows a step takes depends on the order of a run")
        _peek_step(config, path, parse_options(read), step, rank, world_size or 1, max_tokens, tokenizer, json)
        return
    if path is None:
        raise ConfigError("expected the PATH of a corpus, or --step with --config; found neither")
    corpus = open_corpus(path, **parse_options(read))
    decoder = decoder_of(tokenizer)
    first, stop = _rows(corpus, path, row or "0", num)
    if search is not None:
        _peek_search(corpus, search, first, num or 1, within, max_tokens, decoder, json)
        return
    if json:
        print_json([_plain(corpus, i, max_tokens, decoder) for i in range(first, stop)])
        return
    special = marks(corpus, decoder)
    for i in range(first, stop):
        print_row(show_row(corpus, i, max_tokens=max_tokens, decoder=decoder, special=special))


def _check(step: int | None, of_step: dict[str, object], of_rows: dict[str, object]) -> None:
    """Raise ConfigError where options of one way to choose rows come with another."""
    for name, value in (of_step if step is None else of_rows).items():
        if value is None:
            continue
        if step is None:
            raise ConfigError(f"{name} is about --step, which is not given; add it, or leave {name} out")
        raise ConfigError(f"--step and {name} ask for different rows; give one of them")


def _rows(corpus: Corpus, path: str, given: str, num: int | None) -> tuple[int, int]:
    """The first row and the one after the last. Raises ConfigError."""
    first_text, colon, stop_text = given.partition(":")
    try:
        first, stop = int(first_text), int(stop_text) if colon else None
    except ValueError:
        raise ConfigError(f"--row: expected a row or A:B, as 10 or 10:20, found {given!r}") from None
    if stop is not None and num is not None:
        raise ConfigError(f"--row {given} says how many rows already; leave --num out")
    first = first + len(corpus) if first < 0 else first
    if not 0 <= first < len(corpus):
        raise ConfigError(f"--row {given} is not within the {len(corpus)} rows of {path}")
    if stop is None:
        return first, min(first + (num or 1), len(corpus))
    stop = stop + len(corpus) if stop < 0 else stop
    if stop <= first:
        raise ConfigError(f"--row {given}: there is no row from {first} on before {stop}; give A:B with A below B")
    return first, min(stop, len(corpus))


def _peek_search(
    corpus: Corpus,
    wanted: str,
    first: int,
    num: int,
    within: int,
    max_tokens: int,
    decoder: Decoder | None,
    json: bool,
) -> None:
    found = search(corpus, wanted, decoder=decoder, first_row=first, max_hits=num, max_tokens=within)
    if json:
        print_json(asdict(found))
        return
    special = marks(corpus, decoder)
    for hit in found.hits:
        place = (hit.start, hit.stop)
        print_row(show_row(corpus, hit.row, max_tokens=max_tokens, decoder=decoder, special=special, found=place))
    console.print(_told(found), style="dim", markup=False, highlight=False, soft_wrap=True)


def _told(found: Search) -> str:
    rows = f"rows {found.first_row:,} .. {found.next_row - 1:,}, {found.num_tokens:,} tokens"
    what = f"found in {len(found.hits)} of" if found.hits else "not found in"
    end = ", where the corpus ends" if found.is_done else f"; go on with --row {found.next_row}"
    return f"{what} {rows}{end}"


def _peek_step(
    config: Path,
    path: str | None,
    read: dict[str, Any],
    step: int,
    rank: int | None,
    world_size: int,
    max_tokens: int,
    tokenizer: str | None,
    json: bool,
) -> None:
    settings = train_settings(config, path, read)
    decoder = decoder_of(tokenizer)
    try:
        found, shown = show_step(settings, step, rank, world_size, max_tokens=max_tokens, decoder=decoder)
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise MissingDependencyError("tokenyard peek --step needs torch: pip install 'tokenyard[torch]'") from e
    if json:
        slots = zip(found.slots, shown, strict=True)
        print_json({"step": step, "slots": [asdict(slot) | {"input": _plain_row(row, decoder)} for slot, row in slots]})
        return
    console.print(f"step {step} of epoch {found.epoch}, {world_size} ranks", style="bold", highlight=False)
    for row in shown:
        print_row(row)


def _plain(corpus: Corpus, i: int, max_tokens: int, decoder: Decoder | None) -> dict[str, Any]:
    row = corpus.row(i)
    tokens = row.pop("tokens")
    shown: dict[str, Any] = {"row": i, "num_tokens": len(tokens), "tokens": tokens[:max_tokens].tolist()}
    if decoder:
        shown["text"] = decoder.text(shown["tokens"])
        shown["pieces"] = [text for _, text in decoder.pieces(shown["tokens"])]
    for name, value in row.items():
        shown[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return shown


def _plain_row(row: ShownRow, decoder: Decoder | None) -> dict[str, Any]:
    cells = [cell for part in row.parts for cell in part.cells]
    ids = [number for cell in cells for number in cell.ids]
    masked = [cell.is_masked for cell in cells for _ in cell.ids]
    told: dict[str, Any] = {"num_tokens": row.num_tokens, "tokens": ids, "masked": masked}
    return told if decoder is None else told | {"text": decoder.text(ids)}
