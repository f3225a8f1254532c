"""What doctor --preflight prints: a training run looked at before it is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tokenyard.cli.order import read_state
from tokenyard.cli.output import console, print_json
from tokenyard.cli.progress import progress
from tokenyard.display.visible import visible
from tokenyard.errors import MissingDependencyError

if TYPE_CHECKING:
    from tokenyard.preflight.report import Line, PreflightReport

_STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}


def run_preflight(config: Path, *, json: bool, state: Path | None = None, **asked: Any) -> None:
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
