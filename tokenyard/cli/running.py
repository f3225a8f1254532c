"""What all commands share that run a job: their options, their settings, and how what was done is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenyard.cli.output import errors, parse_options, print_fields, print_json
from tokenyard.cli.progress import progress
from tokenyard.errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Workers = Annotated[
    int | None, typer.Option("--workers", "-w", min=1, help="Processes to use (1; of a Ray cluster, all its CPUs).")
]
Executor = Annotated[
    str | None,
    typer.Option(help="local: processes of this machine; ray: those of a Ray cluster that shares the disk (local)."),
]
Address = Annotated[
    str | None, typer.Option(help="Of the Ray cluster: HOST:PORT, or auto, the one this machine is in (auto).")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a corpus that is there, once the new one is whole; folders only.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="A writer's option, see 'tokenyard formats'; repeatable."),
]
Read = Annotated[
    list[str] | None,
    typer.Option(
        "--read", metavar="KEY=VALUE", help="What a corpus of others doesn't say: tokens, token_dtype, split ..."
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML with the job's settings; arguments go before them.")
]
Task = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="K/N",
        help="Do one share of N, K from 1 on: for job arrays, on any machines that reach DST. --finish ends it.",
    ),
]
Finish = Annotated[bool, typer.Option("--finish", help="Make the corpus whole, which shares (--task) have written.")]
Destination = Annotated[
    str | None, typer.Argument(metavar="DST", help="The corpus to make: a folder, or a URL (s3://, gs://, az://).")
]


def job_settings(
    job: str,
    config: Path | None,
    given: dict[str, Any],
    overwrite: bool,
    option: list[str] | None,
    read: list[str] | None,
) -> dict[str, Any]:
    """A job's keyword arguments: those of the YAML, then those of the command line."""
    settings: dict[str, Any] = {}
    if config is not None:
        from tokenyard.config import load_job

        settings = load_job(config, job)
    options = {**settings.pop("options", {}), **parse_options(option)}
    settings |= {name: value for name, value in given.items() if value is not None}
    if overwrite:
        settings["overwrite"] = True
    if read:
        settings["read"] = {**settings.get("read", {}), **parse_options(read)}
    if clash := sorted(set(options) & set(settings)):
        raise ConfigError(f"--option {clash[0]} is no option of a format; it has an argument of its own")
    return settings | options


#: Settings that a share of a job takes beside its plan.
_HOW = ("dst", "num_workers", "executor", "address", "overwrite")


def run_or_share(
    run: Callable[..., Any],
    plan: Callable[..., Any],
    settings: dict[str, Any],
    task: str | None,
    finish: bool,
    title: str,
    json: bool,
) -> None:
    """Do the whole of a job, or a share of it, and tell what was done."""
    with progress(run.__name__) as show, told_what_is_kept():
        if task is None:
            report = run(**settings, finish=finish, on_progress=show)
        elif finish:
            raise ConfigError("--task does a share of the work, --finish ends it when all are done: give one of both")
        else:
            from tokenyard.converters.run import run_part

            how = {name: settings.pop(name) for name in _HOW if name in settings}
            part, title = part_of(task), f"did its tasks ({task})"
            report = run_part(plan(**settings), how.pop("dst"), part, **how, on_progress=show)
    tell(title, report.to_dict(), json)


def part_of(task: str) -> tuple[int, int]:
    """K and N of `K/N`. Raises ConfigError."""
    number, slash, count = task.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ConfigError(f"--task {task}: expected K/N, as 3/16: the third of 16 shares")
    return int(number), int(count)


@contextmanager
def told_what_is_kept() -> Iterator[None]:
    """Tell at an interrupt, too, what its notes say; of errors they are told with the message."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as e:
        for note in getattr(e, "__notes__", ()):
            errors.print(note, markup=False, highlight=False, soft_wrap=True)
        raise


_FLAGS = {"to": "--to", "seq_len": "--seq-len", "tokenizer": "--tokenizer"}


def check_needed(settings: dict[str, Any], *names: str) -> None:
    """Raise ConfigError where neither the command line nor the YAML gives one of these."""
    missing = [_FLAGS.get(n, n.upper()) for n in names if settings.get(n) is None]
    if missing:
        raise ConfigError(f"missing {', '.join(missing)}: give it on the command line or in the YAML; see --help")


def tell(title: str, report: dict[str, Any], json: bool) -> None:
    """Print what a job did."""
    if json:
        print_json(report)
    else:
        print_fields(title, report)
