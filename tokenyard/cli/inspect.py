"""Commands that look: info, peek, formats, schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from tokenyard.cli.output import console, has_shades, parse_options, print_fields, print_json, print_tree
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.errors import ConfigError, NoTokensError
from tokenyard.formats.registry import format_names, get_format
from tokenyard.storage import storage_error

Source = Annotated[str, typer.Argument(metavar="PATH", help="A corpus: a folder, a file, or a file:// URL.")]
#: Of U+0000 .. U+001F and U+007F, all but tab and line feed.
_SIGNS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Read = Annotated[
    list[str] | None,
    typer.Option(
        "--read", metavar="KEY=VALUE", help="What a corpus of others doesn't say: tokens, token_dtype, split ..."
    ),
]


def info(path: Source, read: Read = None, json: Json = False) -> None:
    """Say what a corpus is: format, rows, tokens, shards, lengths, digest, and where it came from.

    Example: `tokenyard info data/corpus-mds --json`
    """
    try:
        said = describe(open_corpus(path, **parse_options(read)))
    except NoTokensError as e:
        said = {"path": path, "rows": e.num_rows, "tokens": None, "problem": str(e), "provenance": {}}
    if json:
        print_json(said)
        return
    provenance = said.pop("provenance")
    print_fields(path, said)
    if provenance:
        print_tree("made by", provenance)


def describe(corpus: Corpus) -> dict[str, Any]:
    """All that the manifest and the row indexes say."""
    manifest = corpus.manifest
    lengths = corpus.row_lengths()
    return {
        "path": str(corpus.path),
        "format": corpus.format,
        "rows": len(corpus),
        "tokens": corpus.num_tokens,
        "shards": len(manifest.shards),
        "bytes": manifest.num_bytes,
        "token_dtype": corpus.schema.token_dtype,
        "layout": manifest.layout.kind,
        "seq_len": manifest.layout.seq_len,
        "vocab_size": corpus.schema.vocab_size,
        "eos_token_id": corpus.schema.eos_token_id,
        "bos_token_id": corpus.schema.bos_token_id,
        "tokenizer": corpus.schema.tokenizer,
        "fields": {n: str(t) for n, t in corpus.schema.fields.items()},
        "shortest_row": int(lengths.min()) if len(lengths) else 0,
        "median_row": float(np.median(lengths)) if len(lengths) else 0.0,
        "longest_row": int(lengths.max()) if len(lengths) else 0,
        "empty_rows": int((lengths == 0).sum()),
        "digest": corpus.digest,
        "field_digests": dict(manifest.digests.fields) if manifest.digests else None,
        "structural_id": None if corpus.digest else corpus.structural_id,
        "provenance": dict(manifest.provenance),
    }


def peek(
    path: Source,
    row: Annotated[int, typer.Option(help="The first row to show; negative counts from the end.")] = 0,
    num: Annotated[int, typer.Option(min=1, help="How many rows.")] = 1,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens shown of each row.")] = 200,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", "-t", help="Name, folder or tokenizer.json, to show text.")
    ] = None,
    read: Read = None,
    json: Json = False,
) -> None:
    """Show rows: ids, or with a tokenizer the text with every token's edges visible.

    Example: `tokenyard peek data/corpus-mds --row 10 --tokenizer tokenizer.json`
    """
    corpus = open_corpus(path, **parse_options(read))
    first = row + len(corpus) if row < 0 else row
    if not 0 <= first < len(corpus):
        raise ConfigError(f"--row {row} is not within the {len(corpus)} rows of {path}")
    rows = [(i, corpus.row(i)) for i in range(first, min(first + num, len(corpus)))]
    decode = _decoder(tokenizer) if tokenizer else None
    if json:
        print_json([_plain(i, r, max_tokens, decode) for i, r in rows])
        return
    for i, values in rows:
        tokens = values.pop("tokens")
        console.print(f"row {i}: {len(tokens):,} tokens", style="bold", highlight=False)
        console.print(_marked(tokens[:max_tokens].tolist(), decode), soft_wrap=True)
        if len(tokens) > max_tokens:
            console.print(f"... {len(tokens) - max_tokens:,} more", style="dim")
        for name, value in values.items():
            console.print(Text(f"{name} = {_short(value)}"), soft_wrap=True)


def formats(json: Json = False) -> None:
    """List the storage formats and their writers' options.

    Example: `tokenyard formats`
    """
    found = [get_format(name) for name in format_names()]
    if json:
        print_json([{"name": f.name, "summary": f.summary, "options": f.Options.model_json_schema()} for f in found])
        return
    table = Table("format", "good for", "options (default)", box=None)
    for format in found:
        options = ", ".join(f"{n} ({f.default})" for n, f in format.Options.model_fields.items())
        table.add_row(format.name, format.summary, options)
    console.print(table)


def schema(
    of: Annotated[str, typer.Option(help="Whose YAML: train, or a job, as tokenize.")] = "train",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
) -> None:
    """Print the JSON schema of a YAML file, for editors.

    Example: `tokenyard schema --of tokenize -o tokenize.schema.json`
    """
    from tokenyard.config import TrainConfig, json_schema
    from tokenyard.config.loading import JOBS

    models: dict[str, Any] = {"train": TrainConfig, **JOBS}
    if of not in models:
        raise ConfigError(f"--of {of}: expected one of {', '.join(models)}")
    found = json_schema(models[of])

    if output is None:
        print_json(found)
        return
    import json

    try:
        output.write_text(json.dumps(found, indent=2) + "\n")
    except OSError as e:
        raise storage_error(e, f"can't write {output}") from e


def _decoder(name: str) -> Any:
    from tokenyard.converters.engines import load_tokenizer

    return load_tokenizer(name).tokenizer.decode


def _marked(ids: list[int], decode: Any) -> Text:
    """The text with the edges of its tokens: each on a ground of its own, or, without shades, a line between."""
    if decode is None:
        return Text(" ".join(map(str, ids)))
    shown = [_visible(decode([token])) or f"<{token}>" for token in ids]
    if not has_shades():
        return Text("│".join(shown))
    return Text.assemble(*((token, ("on grey23", "on grey37")[n % 2]) for n, token in enumerate(shown)))


def _visible(text: str) -> str:
    """Control characters as signs, which a terminal would obey."""
    return text.translate(_SIGNS).replace("\n", "⏎\n")


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        shown = " ".join(str(v) for v in value[:20].tolist())
        return f"[{shown}{' ...' if len(value) > 20 else ''}] ({len(value):,} values)"
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}... ({len(value):,} long)"


def _plain(i: int, row: dict[str, Any], max_tokens: int, decode: Any) -> dict[str, Any]:
    tokens = row.pop("tokens")
    shown: dict[str, Any] = {"row": i, "num_tokens": len(tokens), "tokens": tokens[:max_tokens].tolist()}
    if decode:
        shown["text"] = decode(tokens[:max_tokens].tolist())
    for name, value in row.items():
        shown[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return shown
