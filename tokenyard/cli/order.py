"""The command that says what a run takes, before, while or after it runs: order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenyard.cli import order_views
from tokenyard.errors import ConfigError, MissingDependencyError
from tokenyard.storage import storage_error

if TYPE_CHECKING:
    from tokenyard.datasets.batches import Batches
    from tokenyard.datasets.dataset import TokenDataset


def order(
    config: Annotated[Path, typer.Option("--config", "-c", help="YAML with the settings of the training run.")],
    state: Annotated[
        Path | None,
        typer.Option(
            help="JSON of the loader's state: tell of the run that went on from it, segments decided then too."
        ),
    ] = None,
    new_segment: Annotated[
        bool, typer.Option("--new-segment", help="With --state: what the settings change begins at its step.")
    ] = False,
    step: Annotated[int | None, typer.Option(min=0, help="Tell what is in this step, slot by slot.")] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="With --step: the slots of this rank alone.")] = None,
    world_size: Annotated[int | None, typer.Option(min=1, help="With --step: ranks that share the step (1).")] = None,
    row: Annotated[int | None, typer.Option(min=0, help="Tell at which steps this row is seen.")] = None,
    source: Annotated[str | None, typer.Option(help="With --row: the source in which rows are counted.")] = None,
    epochs: Annotated[
        str | None,
        typer.Option(metavar="K|A:B", help="With --row: the first K epochs of its source, or those A .. B-1 (1)."),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(metavar="N|A:B", help="The first N steps (an epoch); with --digest also those A .. B-1."),
    ] = None,
    digest: Annotated[
        bool,
        typer.Option("--digest", help="With --step, its digest; with --steps A:B, of each and of all; else of all."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which samples, rows, shards and documents a run takes at which step, without running it.

    With neither --step nor --row: the plan of the run. Steps, rows and epochs are counted from 0.

    Example: `tokenyard order --config configs/train-mds.yaml --step 3`
    """
    _check(
        {"--step": step, "--row": row, "--steps": steps},
        {
            "--step": {"--rank": rank, "--world-size": world_size},
            "--row": {"--source": source, "--epochs": epochs},
        },
    )
    if new_segment and state is None:
        raise ConfigError("--new-segment is about --state, which is not given; add it, or leave --new-segment out")
    if row is not None and digest:
        raise ConfigError("--digest is about steps, not about --row; leave one of them out")
    if steps is not None and ":" in steps and not digest:
        raise ConfigError(f"--steps {steps}: without --digest the plan is told of the first N steps; give a number")
    of_epochs = range(*_bounds("--epochs", epochs or "1"))
    of_steps = None if steps is None else _bounds("--steps", steps)
    batches, dataset = _open(config, world_size or 1, state, new_segment)

    from tokenyard.datasets.occurrences import occurrences
    from tokenyard.datasets.receipt import receipt
    from tokenyard.datasets.step_digest import run_digest, step_digests

    if step is not None:
        found = receipt(batches, dataset, step, rank)
        order_views.show_step(found, next(step_digests(batches, dataset, step, step + 1)) if digest else None, json)
    elif row is not None:
        order_views.show_row(occurrences(batches, dataset, row, source, of_epochs), json)
    elif of_steps is not None and steps is not None and ":" in steps:
        digests: list[str] = []
        try:
            digests.extend(step_digests(batches, dataset, *of_steps))
        finally:  # where the run ends before, what there is comes before the error
            if digests:
                order_views.show_digests(of_steps[0], digests, run_digest(digests), json)
    else:
        _show_plan(batches, dataset, None if of_steps is None else of_steps[1], digest, json)


def _show_plan(batches: Batches, dataset: TokenDataset, steps: int | None, digest: bool, json: bool) -> None:
    from tokenyard.datasets.order.segment import ENDLESS
    from tokenyard.datasets.run_report import ENDLESS_STEPS, run_report
    from tokenyard.datasets.step_digest import run_digest, step_digests

    first, stop = batches.epoch_range(0)
    epoch_steps = None if stop >= ENDLESS else stop - first
    steps = steps or epoch_steps or ENDLESS_STEPS
    report = run_report(batches, dataset, steps)
    order_views.show_plan(
        {name: dataset.num_samples_of(k) for k, name in enumerate(dataset.source_names)},
        epoch_steps,
        batches.plan,
        batches.budget,
        report,
        run_digest(step_digests(batches, dataset, 0, report.steps)) if digest else None,
        json,
    )


def _check(views: dict[str, object], belonging: dict[str, dict[str, object]]) -> None:
    """Raise ConfigError unless one view at most is asked for, and nothing that belongs to another."""
    given = [name for name, value in views.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} ask for different things; give one of them")
    for view, options in belonging.items():
        for name, value in options.items():
            if value is not None and view not in given:
                raise ConfigError(f"{name} is about {view}, which is not given; add it, or leave {name} out")


def _bounds(name: str, given: str) -> tuple[int, int]:
    """Read N, or A:B. Raises ConfigError that names the option."""
    first, colon, last = given.partition(":")
    numbers = (first, last) if colon else ("0", first)
    if not all(number.isascii() and number.isdigit() for number in numbers) or int(numbers[0]) >= int(numbers[1]):
        raise ConfigError(f"{name}: expected a number from 1 on, or A:B with A below B, as 10:20; found {given!r}")
    return int(numbers[0]), int(numbers[1])


def _open(config: Path, world_size: int, state: Path | None, new_segment: bool) -> tuple[Batches, TokenDataset]:
    """Return the batches of the first rank, and the dataset, that settings describe. Nothing of its tokens is read."""
    from tokenyard.config import load_config

    try:
        from tokenyard.datasets.opening import open_dataset
        from tokenyard.datasets.planning import make_batches
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise MissingDependencyError("tokenyard order needs torch: pip install 'tokenyard[torch]'") from e

    settings = load_config(config)
    dataset = open_dataset(settings)
    batches = make_batches(settings, dataset, 0, world_size)
    if state is not None:
        batches, _ = batches.resumed(read_state(state), new_segment=new_segment)
    return batches, dataset


def read_state(file: Path) -> dict[str, object]:
    """Read a loader's state. Raises ConfigError where it is none, StorageError where the file can't be read."""
    try:
        said = json.loads(file.read_bytes())
    except OSError as e:
        raise storage_error(e, f"{file}: can't read the state") from None
    except ValueError as e:
        raise ConfigError(f"{file}: expected the JSON of a loader's state_dict(), found no JSON: {e}") from None
    if not isinstance(said, dict):
        raise ConfigError(f"{file}: expected the JSON of a loader's state_dict(), found {said!r:.60}")
    return said
