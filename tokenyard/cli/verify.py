"""The command ``verify``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tokenyard.cli.options import Json, Read, Source
from tokenyard.cli.output import console, parse_options, print_fields, print_json
from tokenyard.cli.progress import progress
from tokenyard.converters.verify import VerifyReport
from tokenyard.converters.verify import verify as verify_corpus

#: Problems shown; with --json all are.
_SHOWN = 100


def verify(
    path: Source,
    quick: Annotated[
        bool, typer.Option("--quick", help="Manifest, sizes and row indexes alone; no shard is decoded.")
    ] = False,
    against: Annotated[
        str | None, typer.Option(help="Another corpus, in any format, that must hold the same rows.")
    ] = None,
    unordered: Annotated[
        bool, typer.Option("--unordered", help="With --against: the same rows, in any order, as after a shuffle.")
    ] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Read with the format's official library too, and compare all tokens.")
    ] = False,
    python: Annotated[
        str | None, typer.Option(help="The interpreter of an environment with that library, as venv/bin/python.")
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option(metavar="DST", help="If something is damaged, make a corpus of the good part here.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", "-w", min=1, help="Processes to use.")] = 1,
    read: Read = None,
    json: Json = False,
) -> None:
    """Check a corpus, and say which shards and rows are bad; exit code 1 when something is wrong.

    In full, the default: every file has its size and checksum, every row decodes, and the digest of all is the
    manifest's. So every changed byte is found. What the manifest doesn't know is told: a corpus that others made has no
    checksums before `tokenyard index`.

    --quick finds a damaged manifest, files that are missing, cut or added, and row indexes that are damaged or don't
    fit the manifest, in seconds. It can't find bytes that changed inside a shard, nor shards of one size that were
    exchanged.

    --against names the first row that differs, and its shard in both; with --unordered it compares the sums of the
    digests of all rows. --reference reads with mosaicml-streaming,
    webdataset, pyarrow, numpy, or Python's json and csv. --quarantine links the good shards (copies them to another
    file system), and says what is lost.

    Example: `tokenyard verify data/corpus-mds --against data/corpus-npy --workers 2`
    """
    with progress("verify") as show:
        report = verify_corpus(
            path,
            quick=quick,
            against=against,
            unordered=unordered,
            reference=reference,
            python=python,
            quarantine=quarantine,
            num_workers=workers,
            read=parse_options(read),
            on_progress=show,
        )
    if json:
        print_json(report.to_dict())
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(1)


def _print(report: VerifyReport) -> None:
    said: dict[str, Any] = report.to_dict()
    for name in ("problems", "notes", "quarantine", "damaged", "bad_shards"):
        del said[name]
    if report.bad_shards:
        said["bad_shards"] = f"{len(report.bad_shards):,} of {report.num_shards:,}"
    print_fields("verified" if report.ok else "NOT WHOLE" if report.damaged else "DIFFERENT", said)
    _list("wrong:", [str(problem) for problem in report.problems])
    _list("not verified:", list(report.notes))
    if (loss := report.quarantine) is not None:
        more = f", and {loss.num_uncounted_shards:,} shards that can't be counted" if loss.num_uncounted_shards else ""
        console.print(
            f"the good part is at {loss.path}; it leaves out {loss.num_shards:,} shards: {loss.num_rows:,} rows, "
            f"{loss.num_tokens:,} tokens{more}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _list(title: str, lines: list[str]) -> None:
    for line in [title] * bool(lines) + [f"- {line}" for line in lines[:_SHOWN]]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(lines) > _SHOWN:
        console.print(f"- and {len(lines) - _SHOWN:,} more; --json lists all", markup=False, highlight=False)
