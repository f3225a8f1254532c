"""The command that finds out before a job whether it can run, and whether it will be fed: doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tokenyard.cli.examination import run_examination
from tokenyard.cli.preflight import run_preflight
from tokenyard.errors import ConfigError

_LOADER, _PREFLIGHT = "With --config", "With --preflight"


def doctor(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="YAML", help="Run the loader of this training run alone: is it fed?"),
    ] = None,
    preflight: Annotated[
        Path | None,
        typer.Option("--preflight", metavar="YAML", help="Look for what would stop or spoil this training run."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print all that was found as JSON.")] = False,
    step_ms: Annotated[
        float | None,
        typer.Option(
            help="What an optimizer step computes; without it, the shortest step is told that is fed.",
            rich_help_panel=_LOADER,
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(help="Data-parallel ranks on this node, all of which run here (1).", rich_help_panel=_LOADER),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(help="How many such nodes the job has (1).", rich_help_panel=_LOADER)
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="What is measured takes about so long in all, beside processes that begin (30).",
            rich_help_panel=_LOADER,
        ),
    ] = None,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="Leave the page cache as it is, in place of measuring a first epoch.",
            rich_help_panel=_LOADER,
        ),
    ] = False,
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Data-parallel ranks that are planned.", rich_help_panel=_PREFLIGHT)
    ] = None,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(min=1, help="Of these, how many share a machine (8 at most).", rich_help_panel=_PREFLIGHT),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Optimizer steps that are planned (an epoch).", rich_help_panel=_PREFLIGHT),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="config.json of the model, or its folder: vocabulary and marks.",
            rich_help_panel=_PREFLIGHT,
        ),
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=1, help="In place of --model: how many ids it has.", rich_help_panel=_PREFLIGHT)
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            "-t",
            help="Name, folder or tokenizer.json, to try on each corpus.",
            rich_help_panel=_PREFLIGHT,
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON of a loader's state: would the run go on from it?",
            rich_help_panel=_PREFLIGHT,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Verify every byte, and look at every row.", rich_help_panel=_PREFLIGHT),
    ] = False,
) -> None:
    """Find out before a job whether it can run (--preflight), and whether its loader will feed the GPUs (--config).

    --preflight takes seconds: the partition of samples over the ranks is proven, files, ids, marks and the tokenizer
    are looked at, cache, memory and limits of the system compared with what the run takes. Of large corpora some is
    looked at, which each line tells; --full reads all. Exit code 1 where a line fails.

    --config runs the job's loader alone, and says whether it will feed so many GPUs, or what the limit is. Exit code 1:
    not fed with the settings as they are. Neither changes a corpus, and nothing stays but what --preflight reads into
    the run's own loader.cache.

    Example: `tokenyard doctor --config configs/train-mds.yaml --step-ms 120 --gpus 8`
    """
    of_loader = {"step_ms": step_ms, "gpus": gpus, "nodes": nodes, "seconds": seconds, "warm": warm or None}
    of_preflight = {
        "ranks": ranks,
        "ranks_per_node": ranks_per_node,
        "steps": steps,
        "model": model,
        "vocab_size": vocab_size,
        "tokenizer": tokenizer,
        "state": state,
        "full": full or None,
    }
    if config is not None and preflight is None:
        _refuse(of_preflight, "--preflight")
        run_examination(config, json=json, **_given(of_loader))
    elif preflight is not None and config is None:
        _refuse(of_loader, "--config")
        run_preflight(preflight, json=json, **_given(of_preflight))
    else:
        raise ConfigError("doctor: name the YAML of a training run by one of --config and --preflight")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: dict[str, Any], way: str) -> None:
    """Raise ConfigError for options that were given, and are of the other way."""
    if given := _given(options):
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ConfigError(f"doctor: {names} {'go' if len(given) > 1 else 'goes'} with {way} alone")
