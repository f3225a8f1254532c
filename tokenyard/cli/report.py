"""The command that makes a page of a corpus, or of two side by side: report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenyard.cli.options import Read, Tokenizer, decoder_of
from tokenyard.cli.output import console, parse_options
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.display.visible import visible
from tokenyard.errors import ConfigError
from tokenyard.storage import storage_error

if TYPE_CHECKING:
    from tokenyard.datasets.order_map import OrderMap

#: The run whose order is drawn unless settings are given.
_RUN = {"seed": 0, "global_batch_size": 8}
_SEQ_LEN = 2048


def report(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus: a folder, a file, or a URL.")],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another corpus, shown beside it with what differs.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="HTML", help="Write the page to this file.")] = Path(
        "corpus.html"
    ),
    tokenizer: Tokenizer = None,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to read of a larger corpus.")] = 1 << 22,
    full: Annotated[bool, typer.Option("--full", help="Read all rows, however many they are.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of which rows are read and shown.")] = 0,
    rows: Annotated[int, typer.Option(min=0, help="Rows to show.")] = 6,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="YAML of a training run whose order is drawn; else of a small one."),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, max=256, help="Steps of the order to draw.")] = 12,
    world_size: Annotated[int, typer.Option(min=1, max=64, help="Ranks of the order to draw.")] = 4,
    read: Read = None,
) -> None:
    """Write one self-contained page: lengths, frequent tokens, packing, shards, sample rows, the order of training.

    Large corpora are sampled, by a seed, and the page says so. With two paths they stand side by side, with their first
    row that differs.

    Example: `tokenyard report data/packed -o corpus.html --tokenizer tokenizer.json`
    """
    from tokenyard.looking.contents import LookSettings, look_into
    from tokenyard.looking.difference import first_difference
    from tokenyard.looking.page import corpus_page

    if not output.absolute().parent.is_dir():
        raise ConfigError(f"--output: there is no folder {output.absolute().parent}; make it, or name another one")
    options = parse_options(read)
    names = [path] if other is None else [path, other]
    corpora = [open_corpus(name, **options) for name in names]
    decoder = decoder_of(tokenizer)
    settings = LookSettings(tokens=tokens, full=full, seed=seed, rows=rows)
    order, note = _order(path, corpora[0], options, config, steps, world_size)
    page = corpus_page(
        [look_into(corpus, name, settings, decoder) for corpus, name in zip(corpora, names, strict=True)],
        command=shlex.join(["tokenyard", *sys.argv[1:]]),
        notes=[note] if note else [],
        difference=first_difference(corpora[0], corpora[1], None if full else tokens) if len(corpora) > 1 else None,
        order=order,
    )
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as e:
        raise storage_error(e, f"can't write {output}") from e
    console.print(visible(f"page: {output}"), markup=False, highlight=False, soft_wrap=True)


def _order(
    path: str, corpus: Corpus, read: Mapping[str, Any], config: Path | None, steps: int, world_size: int
) -> tuple[OrderMap | None, str | None]:
    """The map of the order, or why there is none: only where the run was not named."""
    try:
        from tokenyard.datasets.order_map import order_map
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        return None, "The order of training is not drawn: it needs torch (pip install 'tokenyard[torch]')."
    from tokenyard.config import load_config
    from tokenyard.looking.steps import train_settings

    if config is not None:
        settings = train_settings(config, path, read)
        command = shlex.join(
            ["tokenyard", "order", "--config", str(config), "--step", "0", "--world-size", str(world_size)]
        )
        about = f"Which samples go to which rank at the first steps of the run in {config}."
        return order_map(settings, steps=steps, world_size=world_size, about=about, command=command), None
    packed = corpus.layout.kind == "packed"
    sample = {"mode": "rows"} if packed else {"mode": "concat", "seq_len": _SEQ_LEN}
    order = {**_RUN, "global_batch_size": -(-_RUN["global_batch_size"] // world_size) * world_size}
    what = "rows" if packed else f"windows of {_SEQ_LEN:,} tokens"
    about = (
        f"Which samples ({what}) go to which rank at the first steps of a run of seed {order['seed']} with "
        f"{order['global_batch_size']} samples a step, in blocks shuffled; --config draws yours."
    )
    try:
        settings = load_config({"data": {"path": path, **read, "sample": sample}, "order": order})
        found = order_map(settings, steps=steps, world_size=world_size, about=about, command="")
    except ConfigError as e:
        return None, f"The order of a small run is not drawn: {e}"
    return found, None
