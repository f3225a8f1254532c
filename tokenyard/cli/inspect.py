"""Commands that list what there is: formats, schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tokenyard.cli.options import Json
from tokenyard.cli.output import console, print_json
from tokenyard.display.strict_json import strict_json
from tokenyard.errors import ConfigError
from tokenyard.formats.registry import format_names, get_format
from tokenyard.storage import storage_error


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
    try:
        output.write_text(strict_json(found, indent=2) + "\n")
    except OSError as e:
        raise storage_error(e, f"can't write {output}") from e
