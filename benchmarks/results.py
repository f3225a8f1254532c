"""What benchmarks hand back: lines of one table, each a measured figure beside the bar it is compared with.

A benchmark is a module of this folder with a docstring, whose first line is its title, and
``main(arguments: list[str] | None) -> list[Result]``. `run.py` finds it by that; one that returns None only prints.
``QUICK``, a list of arguments beside it, makes a run small enough to try.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line of the table.

    Attributes:
        work: what was done, the same in all lines of a row of the table.
        case: which format, batch, peer ...
        measured: the figure.
        unit: what the figure is, such as ``of numpy`` or ``MB``.
        bar: what it is compared with; None where it is only told.
        at_most: whether the figure should not be above the bar; else it should not be below.
        rates: what the figure was made of, by name, such as samples a second.
    """

    work: str
    case: str
    measured: float
    unit: str
    bar: float | None = None
    at_most: bool = False
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        if self.bar is None:
            return None
        return self.measured <= self.bar if self.at_most else self.measured >= self.bar


def table(results: Sequence[Result]) -> str:
    """The lines as text in columns."""
    head = ("work", "case", "measured", "bar", "")
    lines = [head, *(_cells(result) for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def report(results: list[Result], *, as_json: bool) -> list[Result]:
    """Print what was measured, as a table or as JSON, and return it."""
    print(json.dumps([asdict(r) | {"met": r.met} for r in results], indent=2) if as_json else table(results))
    return results


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser of a benchmark's arguments, with ``--json``."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def _cells(result: Result) -> tuple[str, ...]:
    sign = "<=" if result.at_most else ">="
    return (
        result.work,
        result.case,
        f"{_shown(result.measured)} {result.unit}",
        "" if result.bar is None else f"{sign} {_shown(result.bar)}",
        {None: "", True: "met", False: "NOT MET"}[result.met],
    )


def _shown(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
