"""The command that says what a corpus is: info."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenyard.cli.options import Json, Read, Source, Tokenizer, decoder_of
from tokenyard.cli.output import console, parse_options, print_fields, print_json, print_table, print_tree
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.display.quantities import digits, percent
from tokenyard.errors import ConfigError, NoTokensError
from tokenyard.looking.counting import Counts, count, of_shards
from tokenyard.looking.lengths import RowLengths, row_lengths, shards_to_index, spread_shards
from tokenyard.looking.rows import marks

if TYPE_CHECKING:
    from tokenyard.looking.decoding import Decoder

_QUANTILES = {"5%": 0.05, "25%": 0.25, "75%": 0.75, "95%": 0.95, "99%": 0.99}
#: Width of the longest bar of a histogram, in characters.
_BAR = 40


def info(
    path: Source,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="SHARDS", help="Count ids and lengths in so many shards, evenly spread."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Count ids and lengths in all shards; reads every token.")
    ] = False,
    tokenizer: Tokenizer = None,
    read: Read = None,
    json: Json = False,
) -> None:
    """Say what a corpus is: format, rows, tokens, shards, lengths, special tokens, digest, and where it came from.

    Without --sample and --full no token is read, and row indexes of 64 shards at most; what wasn't counted is told.

    Example: `tokenyard info data/corpus-mds --sample 4`
    """
    if sample is not None and full:
        raise ConfigError("--sample and --full ask for different things; give one of them")
    said: dict[str, Any]
    try:
        corpus = open_corpus(path, **parse_options(read))
    except NoTokensError as e:
        said = {"path": path, "rows": e.num_rows, "tokens": None, "problem": str(e), "provenance": {}}
        if json:
            print_json(said)
        else:
            print_fields(path, {name: value for name, value in said.items() if name != "provenance"})
        return
    decoder = decoder_of(tokenizer)
    shards = spread_shards(corpus, None if full else sample or shards_to_index(corpus))
    lengths = row_lengths(corpus, shards)
    counts = count(corpus, of_shards(corpus, shards)) if full or sample else None
    said = describe(corpus, lengths, counts, decoder)
    if json:
        print_json(said)
        return
    _print(path, said)


def describe(corpus: Corpus, lengths: RowLengths, counts: Counts | None, decoder: Decoder | None) -> dict[str, Any]:
    """All that the manifest says, with what was counted, and what was not."""
    manifest, of = corpus.manifest, lengths.counts
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
        "pad_token_id": manifest.layout.pad_token_id,
        "tokenizer": corpus.schema.tokenizer,
        "fields": {n: str(t) for n, t in corpus.schema.fields.items()},
        "lengths_of": lengths.told,
        "shortest_row": int(of.quantile(0)),
        "median_row": of.quantile(0.5),
        "mean_row": of.mean,
        "longest_row": int(of.quantile(1)),
        "empty_rows": int(of.counts[of.values == 0].sum()),
        "length_quantiles": {name: of.quantile(share) for name, share in _QUANTILES.items()},
        "lengths": [{"low": b.low, "high": b.high, "rows": b.count} for b in of.bins()],
        "special_tokens": _special_tokens(corpus, counts, decoder),
        "padding_tokens": None if counts is None or counts.fill is None else counts.fill.padding,
        "tokens_counted": 0 if counts is None else counts.num_tokens,
        "not_counted": _not_counted(corpus, lengths, counts),
        "digest": corpus.digest,
        "field_digests": dict(manifest.digests.fields) if manifest.digests else None,
        "structural_id": None if corpus.digest else corpus.structural_id,
        "provenance": dict(manifest.provenance),
    }


def _special_tokens(corpus: Corpus, counts: Counts | None, decoder: Decoder | None) -> list[dict[str, Any]]:
    """The marks that are known, and those added tokens that occur."""
    return [
        {
            "id": number,
            "role": role,
            "token": None if decoder is None else decoder.text([number]),
            "count": None if counts is None else counts.of(number),
            "share": None if counts is None else counts.share(number),
        }
        for number, role in marks(corpus, decoder).items()
        if role != "added" or (counts is not None and counts.of(number))
    ]


def _not_counted(corpus: Corpus, lengths: RowLengths, counts: Counts | None) -> list[str]:
    found = []
    if not lengths.is_whole:
        found.append(
            f"lengths in {lengths.of_shards - lengths.num_shards:,} of {lengths.of_shards:,} shards (--full counts all)"
        )
    if counts is None:
        found.append("special tokens and padding: no token was read (--sample N reads N shards, --full all)")
    elif counts.num_rows < len(corpus):
        found.append(
            f"special tokens and padding in {corpus.num_tokens - counts.num_tokens:,} tokens (--full reads all)"
        )
    return found


def _print(path: str, said: dict[str, Any]) -> None:
    apart = ("provenance", "lengths", "special_tokens", "not_counted", "tokens_counted", "length_quantiles")
    shown = {name: value for name, value in said.items() if name not in apart}
    if (counted := said["tokens_counted"]) and shown["padding_tokens"] is not None:
        shown["padding_tokens"] = (
            f"{shown['padding_tokens']:,} of {counted:,} ({percent(shown['padding_tokens'] / counted)})"
        )
    print_fields(path, shown)
    _print_lengths(said)
    if said["special_tokens"]:
        console.print("special tokens", style="bold")
        lines = [
            (
                f"  {found['id']}",
                found["role"],
                found["token"] or "",
                "not counted" if found["share"] is None else f"{percent(found['share'])}, {found['count']:,} times",
            )
            for found in said["special_tokens"]
        ]
        print_table(("  id", "role", "token", "share"), lines)
    for line in said["not_counted"]:
        console.print(f"not counted: {line}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if said["provenance"]:
        print_tree("made by", said["provenance"])


def _print_lengths(said: dict[str, Any]) -> None:
    bins = said["lengths"]
    if not bins:
        return
    told = ", ".join(f"{name} {digits(value)}" for name, value in said["length_quantiles"].items())
    console.print("row lengths", style="bold")
    console.print(f"  quantiles: {told}", highlight=False, soft_wrap=True)
    most, total = max(found["rows"] for found in bins), sum(found["rows"] for found in bins)
    names = [f"{b['low']:,}" if b["low"] == b["high"] else f"{b['low']:,} - {b['high']:,}" for b in bins]
    width = max(map(len, names))
    for name, found in zip(names, bins, strict=True):
        bar = "#" * -(-_BAR * found["rows"] // most)
        console.print(
            f"  {name:>{width}}  {bar:{_BAR}}  {found['rows']:,} ({percent(found['rows'] / total)})",
            highlight=False,
            soft_wrap=True,
        )
