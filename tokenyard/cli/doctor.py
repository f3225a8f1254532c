"""The command that says before a job whether it will be fed: doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenyard.cli.output import console, print_fields, print_json, print_table
from tokenyard.cli.progress import steps
from tokenyard.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from tokenyard.doctor.report import DoctorReport


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML with the settings of the training run.")
    ] = None,
    step_ms: Annotated[
        float | None,
        typer.Option(help="What an optimizer step computes; without it, the shortest step is told that is fed."),
    ] = None,
    gpus: Annotated[int, typer.Option(help="Data-parallel ranks on this node, all of which run here (1).")] = 1,
    nodes: Annotated[int, typer.Option(help="How many such nodes the job has (1).")] = 1,
    seconds: Annotated[
        float, typer.Option(help="What is measured takes about so long in all, beside processes that begin.")
    ] = 30.0,
    warm: Annotated[
        bool,
        typer.Option("--warm", help="Leave the page cache as it is, in place of measuring a first epoch."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Run a job's loader alone, and say whether it will feed so many GPUs, or what the limit is.

    The corpus is only read, and nothing stays. Exit code 1: not fed with the settings as they are.

    Example: `tokenyard doctor --config configs/train-mds.yaml --step-ms 120 --gpus 8`
    """
    if config is None:
        raise ConfigError("--config: missing; name the YAML of the training run")
    try:
        from tokenyard.doctor import examine
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise MissingDependencyError("tokenyard doctor needs torch: pip install 'tokenyard[torch]'") from e

    with steps("doctor") as show:
        found = examine(config, step_ms=step_ms, gpus=gpus, nodes=nodes, seconds=seconds, warm=warm, on_step=show)
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
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    if found.yaml:
        console.print("\nput into the YAML:\n", markup=False, highlight=False, soft_wrap=True)
        console.print(found.yaml, markup=False, highlight=False, soft_wrap=True)
    console.print()
    for note in found.notes:
        console.print(f"- {note}", markup=False, highlight=False, soft_wrap=True)
