"""What commands print: tables and JSON to standard output, progress and errors to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import yaml
from rich.console import Console

from tokenyard.display.strict_json import strict_json
from tokenyard.display.visible import visible
from tokenyard.errors import ConfigError

#: As a shell says it of a process that a closed pipe has ended: 128 and the number of SIGPIPE.
CLOSED_PIPE = 141


class _Output(Console):
    """Standard output; whoever reads it may have had enough, as `head` has."""

    def on_broken_pipe(self) -> None:
        """End without a word."""
        self.quiet = True
        _end_at_closed_pipe()


errors = Console(stderr=True)
console = _Output()


def has_shades() -> bool:
    """Whether grounds of two greys can be told apart: on a terminal of 256 colors, where NO_COLOR isn't set."""
    return console.color_system in ("256", "truecolor") and not console.no_color


def print_json(value: Any) -> None:
    """One JSON document on standard output, of which every parser reads every number: see `strict_json`."""
    try:
        sys.stdout.write(strict_json(value, indent=2, sort_keys=True) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _end_at_closed_pipe()


def _end_at_closed_pipe() -> NoReturn:
    # Python flushes standard output once more when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(CLOSED_PIPE)


def print_fields(title: str, values: Mapping[str, Any]) -> None:
    """A title, then a line for each name and value; nothing is cut, so that digests can be copied."""
    shown = {name.replace("_", " "): _shown(value) for name, value in values.items() if value not in ((), {}, [], None)}
    width = max(map(len, shown), default=0)
    console.print(visible(title), style="bold", markup=False, highlight=False, soft_wrap=True)
    for name, value in shown.items():
        console.print(visible(f"  {name:{width}}  {value}"), markup=False, highlight=False, soft_wrap=True)


def print_tree(title: str, values: Mapping[str, Any]) -> None:
    """A title, then a line for each name and value; mappings, and lists of them, come on lines further in."""
    console.print(visible(title), style="bold", markup=False, highlight=False, soft_wrap=True)
    for line in _tree_lines(values, "  "):
        console.print(visible(line), markup=False, highlight=False, soft_wrap=True)


def _tree_lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    named = {str(name).replace("_", " "): value for name, value in values.items() if value not in ((), {}, [], None)}
    flat = {name: value for name, value in named.items() if not _is_nested(value)}
    width = max(map(len, flat), default=0)
    for name, value in named.items():
        if name in flat:
            yield f"{indent}{name:{width}}  {_shown(value)}"
            continue
        parts = [value] if isinstance(value, Mapping) else value
        for number, part in enumerate(parts, 1):
            yield f"{indent}{name}" if len(parts) == 1 else f"{indent}{name} {number} of {len(parts)}"
            yield from _tree_lines(part, indent + "  ")


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list | tuple) and all(isinstance(part, Mapping) for part in value)
    )


def print_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Columns under a header, numbers to the right; nothing is cut or folded, so that lines can be searched."""
    lines = [[visible(cell, newline="⏎", tab="⇥") for cell in line] for line in lines]
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
