"""What peek prints of a row: with colors on a terminal, else in plain signs."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text

from tokenyard.cli.output import console, has_shades
from tokenyard.looking.shown import Cell, Part, ShownRow

#: Grounds that alternate by token.
_GROUNDS = ("on grey23", "on grey37")
_EDGE = "│"
#: Around what is masked, and around what was found, where there are no colors.
_MASKED, _FOUND = ("⟦", "⟧"), ("»", "«")


def print_row(row: ShownRow) -> None:
    """Print a row: its title, each document, what is not shown, and its fields."""
    masked = f", masked by {row.mask}{'' if has_shades() else ': ' + '...'.join(_MASKED)}" if row.mask else ""
    title = Text(f"{row.title}: {row.num_tokens:,} tokens", style="bold")
    console.print(title + Text(masked, style="dim"), soft_wrap=True)
    if row.before:
        console.print(f"{row.before:,} before ...", style="dim", highlight=False)
    for part in row.parts:
        if part.title is not None:
            console.print(Text(f"-- {part.title}", style="cyan"), soft_wrap=True)
        console.print(_shaded(part) if has_shades() else _plain(part), soft_wrap=True)
    if row.after:
        console.print(f"... {row.after:,} more", style="dim", highlight=False)
    for name, value in row.fields.items():
        console.print(Text(f"{name} = {value}"), soft_wrap=True)


def _shaded(part: Part) -> Text:
    separator = " " if _is_ids(part) else ""
    return Text.assemble(*((cell.text + separator, _style(n, cell)) for n, cell in enumerate(part.cells)))


def _style(number: int, cell: Cell) -> str:
    styles = [_GROUNDS[number % 2]]
    if cell.is_found:
        styles.append("bold yellow reverse")
    elif cell.is_masked:
        styles.append("dim strike")
    elif cell.is_special:
        styles.append("bold magenta")
    return " ".join(styles)


def _plain(part: Part) -> Text:
    """Tokens with a line between; ids with a space."""
    separator = " " if _is_ids(part) else _EDGE
    runs = groupby(part.cells, lambda cell: (cell.is_found, cell.is_masked))
    return Text(separator.join(_wrapped(separator, list(run), *how) for how, run in runs))


def _wrapped(separator: str, cells: list[Cell], is_found: bool, is_masked: bool) -> str:
    begin, end = _FOUND if is_found else _MASKED if is_masked else ("", "")
    return begin + separator.join(cell.text for cell in cells) + end


def _is_ids(part: Part) -> bool:
    return all(cell.text == str(cell.ids[0]) for cell in part.cells)
