"""The command bench: storage formats measured on the user's own corpus and disk."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenyard.cli.output import console, parse_options, print_fields, print_json, print_table
from tokenyard.cli.progress import steps
from tokenyard.display.visible import visible
from tokenyard.errors import ConfigError

if TYPE_CHECKING:
    from tokenyard.bench.results import BenchReport


def bench(
    src: Annotated[
        str | None, typer.Argument(metavar="SRC", help="The corpus to measure; without one, ids are made.")
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT[:CODEC]",
            help="What to compare, as 'npy,mds:zstd,parquet:lz4'; repeatable. All formats unless given.",
        ),
    ] = None,
    make: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="Without SRC: how many ids to make (33,554,432).")
    ] = None,
    documents: Annotated[
        bool, typer.Option("--documents", help="Without SRC: make documents of many lengths, not packed rows.")
    ] = False,
    dir: Annotated[
        Path | None, typer.Option(help="The folder, and so the disk, to write in (beside SRC, else the current one).")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Write into this folder, and leave there what was written.")] = None,
    sample_bytes: Annotated[int, typer.Option(help="Bytes of tokens to take of a larger corpus.")] = 64 << 20,
    shard_bytes: Annotated[
        int | None, typer.Option(help="Bytes after which a shard ends (an eighth of what is measured, 8 MiB at most).")
    ] = None,
    seq_len: Annotated[int, typer.Option(help="Tokens of a sample, where rows are not packed already.")] = 2048,
    batch_size: Annotated[int, typer.Option(help="Samples of a batch.")] = 16,
    rounds: Annotated[int, typer.Option(help="How often everything is measured, in turn.")] = 3,
    seconds: Annotated[float, typer.Option(help="How long a rate is measured in a round.")] = 1.0,
    cold: Annotated[bool, typer.Option("--cold/--no-cold", help="Measure with a cold page cache too (yes).")] = True,
    peers: Annotated[
        bool, typer.Option("--peers", help="Measure other libraries on the same shards; needs --python.")
    ] = False,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Python of an environment that has other libraries.")
    ] = None,
    read: Annotated[
        list[str] | None,
        typer.Option(
            "--read", metavar="KEY=VALUE", help="What a corpus of others doesn't say: tokens, token_dtype, split ..."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a page with charts to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Write a corpus in each format, measure size, speed, latency and memory, and say which format to take.

    Example: `tokenyard bench data/packed --report bench.html`
    """
    from tokenyard.bench.run import run_bench
    from tokenyard.bench.settings import DEFAULT_MADE_TOKENS, BenchSettings, PeersSettings
    from tokenyard.bench.variants import parse_variants

    if src is not None and (make is not None or documents):
        raise ConfigError("--make and --documents are about ids that are made, but SRC is given; leave one of them out")
    if peers != (python is not None):
        raise ConfigError("--peers and --python go together: other libraries live in an environment of their own")
    if report is not None and not report.absolute().parent.is_dir():
        raise ConfigError(f"--report: there is no folder {report.absolute().parent}; make it, or name another one")
    settings = BenchSettings(
        source=src,
        read=parse_options(read),
        made_tokens=make if make is not None else DEFAULT_MADE_TOKENS,
        made_documents=documents,
        folder=dir,
        keep=keep,
        sample_bytes=sample_bytes,
        shard_bytes=shard_bytes,
        seq_len=seq_len,
        batch_size=batch_size,
        rounds=rounds,
        seconds=seconds,
        cold=cold,
        peers=PeersSettings(python=python) if python is not None else None,
        variants=parse_variants([spec for given in formats or () for spec in given.split(",")]),
    )
    with steps("bench") as show:
        found = run_bench(settings, command=shlex.join(["tokenyard", *sys.argv[1:]]), on_step=show)
    if report is not None:
        _write_page(report, found)
    if json:
        print_json(found.to_dict())
    else:
        _print(found)
        if report is not None:
            console.print(visible(f"charts: {report}"), markup=False, highlight=False, soft_wrap=True)


def _write_page(path: Path, found: BenchReport) -> None:
    from tokenyard.bench.report import report_page
    from tokenyard.storage import storage_error

    try:
        path.write_text(report_page(found), encoding="utf-8")
    except OSError as e:
        raise storage_error(e, f"can't write {path}") from e


def _print(found: BenchReport) -> None:
    from tokenyard.bench.report.tables import comparison, peer_lines, told_corpus, told_machine

    print_fields("corpus", told_corpus(found))
    print_fields("machine", told_machine(found))
    console.print()
    print_table(*comparison(found))
    if found.peers:
        console.print()
        print_table(*peer_lines(found))
    console.print()
    for choice in found.choices:
        console.print(f"{choice.purpose}: {choice.title}", style="bold", markup=False, highlight=False, soft_wrap=True)
        console.print(f"  {choice.because} ({choice.rule})", markup=False, highlight=False, soft_wrap=True)
    console.print()
    for note in found.notes:
        console.print(f"- {note}", markup=False, highlight=False, soft_wrap=True)
