"""Commands that make corpora of some, or more, rows: split, merge, filter."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tokenyard.cli.output import parse_options
from tokenyard.cli.progress import progress
from tokenyard.cli.running import (
    Address,
    Config,
    Destination,
    Executor,
    Finish,
    Json,
    Options,
    Overwrite,
    Read,
    Task,
    Workers,
    check_needed,
    job_settings,
    part_of,
    run_or_share,
    tell,
    told_what_is_kept,
)
from tokenyard.errors import ConfigError

Source = Annotated[str | None, typer.Argument(metavar="SRC", help="The corpus to read.")]
Format = Annotated[str | None, typer.Option("--format", "--to", help="The format to write; the source's unless given.")]


def filter(
    src: Source = None,
    dst: Destination = None,
    min_tokens: Annotated[int | None, typer.Option(min=0, help="The least tokens of a row.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help="The most tokens of a row.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="On a field, as 'score >= 0.5'; repeatable, and all must hold."),
    ] = None,
    format: Format = None,
    workers: Workers = None,
    executor: Executor = None,
    address: Address = None,
    overwrite: Overwrite = False,
    task: Task = None,
    finish: Finish = False,
    option: Options = None,
    read: Read = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Keep the rows of some lengths, and those whose fields are as wanted.

    Conditions: ==, !=, <, <=, >, >=, in [a, b], not in [a, b], is null, is not null. For a null no comparison holds.

    Example: `tokenyard filter data/documents data/good --min-tokens 16 --where 'lang in [en, de]'`
    """
    from tokenyard.converters.filter_rows import filter_rows as run
    from tokenyard.converters.filter_rows import plan_filter as plan

    given: dict[str, Any] = {"src": src, "dst": dst, "min_tokens": min_tokens, "max_tokens": max_tokens}
    given |= {
        "where": where or None,
        "format": format,
        "num_workers": workers,
        "executor": executor,
        "address": address,
    }
    settings = job_settings("filter", config, given, overwrite, option, read)
    check_needed(settings, "src", "dst")
    run_or_share(run, plan, settings, task, finish, "filtered", json)


def split(
    src: Source = None,
    dst: Annotated[str | None, typer.Argument(metavar="DST", help="The folder to make the parts in.")] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SIZE", help="A part: 0.01 is a share, 5000 a number of rows (validation=0.01)."),
    ] = None,
    rest: Annotated[str | None, typer.Option(help="The part of all other rows (train).")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Chooses the rows (0).")] = None,
    format: Format = None,
    workers: Workers = None,
    executor: Executor = None,
    address: Address = None,
    overwrite: Overwrite = False,
    task: Task = None,
    finish: Finish = False,
    option: Options = None,
    read: Read = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Put each row into one of several corpora, DST/train and DST/validation unless told otherwise.

    Example: `tokenyard split data/documents data/split --part validation=0.01 --part test=5000 --seed 1`
    """
    from tokenyard.converters.split import split as run
    from tokenyard.converters.split import split_part

    parts = parse_options(part, keep_names=True) or None
    given: dict[str, Any] = {"src": src, "dst": dst, "parts": parts, "rest": rest, "seed": seed}
    given |= {"format": format, "num_workers": workers, "executor": executor, "address": address}
    settings = job_settings("split", config, given, overwrite, option, read)
    check_needed(settings, "src", "dst")
    if task is None or finish:
        run_or_share(run, split_part, settings, task, finish, "split: the rows of all parts are the source's", json)
        return
    with progress("split") as show, told_what_is_kept():
        report = split_part(**settings, part=part_of(task), on_progress=show)
    tell(f"did its tasks ({task})", report.to_dict(), json)


def merge(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="SRC... DST", help="Corpora of any formats; then the one to make.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", "--to", help="The format to write; the first source's unless given.")
    ] = None,
    token_dtype: Annotated[str | None, typer.Option(help="Write tokens as uint16, uint32, int32 or int64.")] = None,
    workers: Workers = None,
    executor: Executor = None,
    address: Address = None,
    overwrite: Overwrite = False,
    task: Task = None,
    finish: Finish = False,
    option: Options = None,
    read: Read = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Put corpora one after another. What differs in meaning (fields, tokenizer, layout) is refused.

    Example: `tokenyard merge data/web-npy data/books-mds data/all --to parquet --workers 2`
    """
    from tokenyard.converters.merge import merge as run
    from tokenyard.converters.merge import plan_merge as plan

    given: dict[str, Any] = {
        "format": format,
        "token_dtype": token_dtype,
        "num_workers": workers,
        "executor": executor,
        "address": address,
    }
    if corpora and len(corpora) > 1:
        given |= {"sources": corpora[:-1], "dst": corpora[-1]}
    elif corpora:
        raise ConfigError(f"{corpora[0]}: merge takes its sources and then the corpus to make; see --help")
    settings = job_settings("merge", config, given, overwrite, option, read)
    check_needed(settings, "sources", "dst")
    run_or_share(run, plan, settings, task, finish, "merged: every row read back equals its source's", json)
