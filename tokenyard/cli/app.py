"""The ``tokenyard`` command, and its exit codes."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import tokenyard
from tokenyard.cli import inspect, jobs, rows
from tokenyard.cli.bench import bench
from tokenyard.cli.doctor import doctor
from tokenyard.cli.info import info
from tokenyard.cli.order import order
from tokenyard.cli.output import errors
from tokenyard.cli.peek import peek
from tokenyard.cli.report import report
from tokenyard.cli.verify import verify
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

_EXIT_CODES = """
Exit codes: **0** done, and all is well; **1** data are not as they should be, a file can't be read or written, or a
check or a measurement failed; **2** used wrongly: an option, setting or name that is unknown or doesn't fit, a path
without a corpus, a missing package; **130** interrupted (Ctrl-C); **143** ended (SIGTERM); **141** whoever read the
output has closed it.
"""

app = typer.Typer(
    name="tokenyard",
    epilog=_EXIT_CODES,
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
    rows.split,
    rows.merge,
    rows.filter,
    jobs.index,
    verify,
    info,
    peek,
    report,
    order,
    bench,
    doctor,
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
    if isinstance(sys.stdout, io.TextIOWrapper):  # as Python has it for standard error: bytes of a path are no UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as by nohup
        signal.signal(signal.SIGINT, _end)
    try:
        app()
    except TokenyardError as e:
        message = "\n".join([f"error: {e}", *getattr(e, "__notes__", ())])
        errors.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2 if isinstance(e, _WRONG_USE) else 1)
