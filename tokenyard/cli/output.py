"""What commands print: tables and JSON to standard output, progress and errors to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tokenyard.converters.job import OnProgress, Progress
from tokenyard.errors import ConfigError

errors = Console(stderr=True)
console = Console()


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, default=str) + "\n")


def print_fields(title: str, values: Mapping[str, Any]) -> None:
    """A title, then a line for each name and value; nothing is cut, so that digests can be copied."""
    shown = {name.replace("_", " "): _shown(value) for name, value in values.items() if value not in ((), {}, [], None)}
    width = max(map(len, shown), default=0)
    console.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
    for name, value in shown.items():
        console.print(f"  {name:{width}}  {value}", markup=False, highlight=False, soft_wrap=True)


def print_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Columns under a header, numbers to the right; nothing is cut or folded, so that lines can be searched."""
    columns = list(zip(header, *lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(cell[:1].isdigit() for cell in column[1:]) for column in columns]
    for n, line in enumerate([header, *lines]):
        cells = (f"{c:>{w}}" if r else f"{c:{w}}" for c, w, r in zip(line, widths, right, strict=True))
        text = "  ".join(cells).rstrip()
        console.print(text, style=None if n else "bold", markup=False, highlight=False, soft_wrap=True)


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {v}" for k, v in value.items()) or "-"
    return str(value)


@contextmanager
def progress(title: str) -> Iterator[OnProgress]:
    """A progress line on standard error: rows, tokens, MB/s and the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[amounts]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(title, total=1.0, amounts="")

        def show(done: Progress) -> None:
            speed = done.bytes / done.seconds / 1e6 if done.seconds else 0.0
            amounts = f"{done.rows:,} rows, {done.tokens:,} tokens" + (f", {speed:,.0f} MB/s" if done.bytes else "")
            bar.update(task, completed=done.share, amounts=amounts)

        yield show


def parse_options(values: Sequence[str] | None, *, keep_names: bool = False) -> dict[str, Any]:
    """``key=value`` arguments, values read as YAML; '-' in keys means '_' unless names are kept. Raises ConfigError."""
    found: dict[str, Any] = {}
    for item in values or ():
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise ConfigError(f"option {item!r}: expected key=value")
        try:
            found[key if keep_names else key.replace("-", "_")] = yaml.safe_load(value)
        except yaml.YAMLError as e:
            raise ConfigError(f"option {item!r}: {e}") from None
    return found
