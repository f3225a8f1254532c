"""The ``tokenyard`` command: exit code 0, 1 when the data or a check failed, 2 when it was used wrongly."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import tokenyard
from tokenyard.cli import inspect, jobs
from tokenyard.cli.bench import bench
from tokenyard.cli.order import order
from tokenyard.cli.output import errors
from tokenyard.errors import (
    ConfigError,
    DestinationExistsError,
    MissingDependencyError,
    NotACorpusError,
    TokenyardError,
    UnknownFormatError,
    UnknownTokenizerError,
)

_WRONG_USE = (
    ConfigError,
    DestinationExistsError,
    MissingDependencyError,
    NotACorpusError,
    UnknownFormatError,
    UnknownTokenizerError,
)

app = typer.Typer(
    name="tokenyard",
    help="Tokenize, pack and convert corpora between storage formats, with proof, and look into them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: tuple[Callable[..., None], ...] = (
    jobs.tokenize,
    jobs.pack,
    jobs.convert,
    jobs.index,
    inspect.verify,
    inspect.info,
    inspect.peek,
    order,
    bench,
    inspect.formats,
    inspect.schema,
)
for command in _COMMANDS:
    app.command()(command)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tokenyard {tokenyard.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Say the version and end.")
    ] = False,
) -> None:
    """What comes before a command."""


def _end(number: int, _: object) -> None:
    """Ended from outside: leave by way of the clean-up, as after an interrupt."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line of this process."""
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except TokenyardError as e:
        errors.print(f"error: {e}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2 if isinstance(e, _WRONG_USE) else 1)
