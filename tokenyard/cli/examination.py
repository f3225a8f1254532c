"""What doctor --config prints: a job's loader run alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tokenyard.cli.output import console, print_fields, print_json, print_table
from tokenyard.cli.progress import steps
from tokenyard.display.visible import visible
from tokenyard.errors import MissingDependencyError

if TYPE_CHECKING:
    from tokenyard.doctor.report import DoctorReport


def run_examination(config: Path, *, json: bool, **asked: Any) -> None:
    """Examine a job, print the page, and end with exit code 1 where it is not fed as it is.

    ``asked``: arguments of ``tokenyard.doctor.examine``.
    """
    try:
        from tokenyard.doctor import examine
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise MissingDependencyError("tokenyard doctor needs torch: pip install 'tokenyard[torch]'") from e

    with steps("doctor") as show:
        found = examine(config, on_step=show, **asked)
    if json:
        from tokenyard.doctor.page import sentence

        print_json({**found.to_dict(), "sentence": sentence(found)})
    else:
        _print(found)
    if found.is_fed_as_configured is False:
        raise typer.Exit(1)


def _print(found: DoctorReport) -> None:
    from tokenyard.doctor.page import advice, sentence, told_check, told_need, trials_table

    print_fields("the job", told_need(found))
    console.print()
    print_table(*trials_table(found))
    console.print()
    ranks = len(found.check.fast)
    print_fields(f"{ranks} ranks at once" if ranks > 1 else "the check", told_check(found))
    console.print()
    console.print(sentence(found), style="bold", markup=False, highlight=False, soft_wrap=True)
    for line in advice(found):
        console.print(visible(f"  {line}"), markup=False, highlight=False, soft_wrap=True)
    if found.yaml:
        console.print("\nput into the YAML:\n", markup=False, highlight=False, soft_wrap=True)
        console.print(found.yaml, markup=False, highlight=False, soft_wrap=True)
    console.print()
    for note in found.notes:
        console.print(f"- {note}", markup=False, highlight=False, soft_wrap=True)
