"""The command that looks at a training run before it is started: doctor --preflight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenyard.cli.order import read_state
from tokenyard.cli.output import console, print_json
from tokenyard.cli.progress import progress
from tokenyard.display.visible import visible
from tokenyard.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from tokenyard.preflight.report import Line, PreflightReport

_STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}

Config = Annotated[
    Path | None,
    typer.Option(
        "--preflight", metavar="YAML", help="Look at the training run of these settings, before it is started."
    ),
]
Ranks = Annotated[int | None, typer.Option(min=1, help="Data-parallel ranks that are planned.")]
RanksPerNode = Annotated[int | None, typer.Option(min=1, help="Of these, how many share a machine (8 at most).")]
Steps = Annotated[int | None, typer.Option(min=1, help="Optimizer steps that are planned (an epoch).")]
Model = Annotated[
    Path | None, typer.Option(metavar="PATH", help="config.json of the model, or its folder: vocabulary and marks.")
]
VocabSize = Annotated[int | None, typer.Option(min=1, help="In place of --model: how many ids it has.")]
TokenizerPath = Annotated[
    str | None, typer.Option("--tokenizer", "-t", help="Name, folder or tokenizer.json, to try on each corpus.")
]
State = Annotated[
    Path | None, typer.Option(metavar="FILE", help="JSON of a loader's state: would the run go on from it?")
]
Full = Annotated[bool, typer.Option("--full", help="Verify every byte, and look at every row.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def doctor(
    preflight: Config = None,
    ranks: Ranks = None,
    ranks_per_node: RanksPerNode = None,
    steps: Steps = None,
    model: Model = None,
    vocab_size: VocabSize = None,
    tokenizer: TokenizerPath = None,
    state: State = None,
    full: Full = False,
    json: AsJson = False,
) -> None:
    """Find out what would stop or spoil a training run: one page, each line with pass, warn or fail, and the way out.

    --preflight takes seconds: the partition of samples over the ranks is proven, files, ids, marks and the tokenizer
    are looked at, cache, memory and limits of the system compared with what the run takes. Of large corpora some is
    looked at, which each line tells; --full reads all. Exit code 1 where a line fails.

    Example: `tokenyard doctor --preflight configs/train-mds.yaml --ranks 2 --steps 1000`
    """
    if preflight is None:
        raise ConfigError("doctor: nothing to look at; name the settings of a run by --preflight")
    run_preflight(
        preflight,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        steps=steps,
        model=model,
        vocab_size=vocab_size,
        tokenizer=tokenizer,
        state=state,
        full=full,
        json=json,
    )


def run_preflight(config: Path, *, state: Path | None, json: bool, **asked: Any) -> None:
    """Do the preflight, print its page, and end with exit code 1 where a line fails.

    ``asked``: arguments of ``tokenyard.preflight.preflight``.
    """
    try:
        from tokenyard.preflight.run import preflight
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise MissingDependencyError("tokenyard doctor needs torch: pip install 'tokenyard[torch]'") from e

    told = None if state is None else read_state(state)
    with progress("preflight") as show:
        report = preflight(config, state=told, on_progress=show, **asked)
    if json:
        print_json(report.to_dict())
    else:
        _print(config, report)
    if not report.ok:
        raise typer.Exit(1)


def _print(config: Path, report: PreflightReport) -> None:
    planned = "" if report.ranks is None else f": {report.ranks:,} ranks, {report.steps:,} steps"
    console.print(visible(f"{config}{planned}"), style="bold", markup=False, highlight=False, soft_wrap=True)
    width = max((len(_name(line)) for line in report.lines), default=0)
    for line in report.lines:
        console.print(f"  {line.status}", style=_STYLES[line.status], end="", highlight=False)
        for number, text in enumerate(_texts(line)):
            start = f"  {_name(line):{width}}  " if not number else " " * (6 + 2 + width + 2)
            console.print(visible(start + text), markup=False, highlight=False, soft_wrap=True)
    for reason in report.not_checked:
        console.print(
            visible(f"not looked at: {reason}"), style="yellow", markup=False, highlight=False, soft_wrap=True
        )
    counts = {status: sum(line.status == status for line in report.lines) for status in _STYLES}
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    console.print(f"{told}; {report.seconds:.1f} s", style="bold", highlight=False)


def _name(line: Line) -> str:
    return line.check if line.source is None else f"{line.check} of {line.source}"


def _texts(line: Line) -> Iterator[str]:
    yield line.found
    if line.way_out:
        yield f"-> {line.way_out}"
