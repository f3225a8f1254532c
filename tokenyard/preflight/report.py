"""What a preflight found: lines, each with a verdict and the way out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["pass", "warn", "fail"]
_BY_WEIGHT: tuple[Status, ...] = ("fail", "warn", "pass")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that was looked at.

    Attributes:
        check: what was looked at, in a word or two.
        status: `pass`; `warn`, where the run works but may not do what is meant; `fail`, where it breaks, or learns
            from what it must not.
        found: what was found, and how much was looked at.
        way_out: what to do about it; "" where `found` says it, or there is nothing to do.
        source: the corpus it is about, of several.
    """

    check: str
    status: Status
    found: str
    way_out: str = ""
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class PreflightReport:
    """All lines, in the order of the page.

    Attributes:
        lines: what was looked at.
        not_checked: what could not be looked at, each with the reason.
        ranks: data-parallel ranks that were planned with; None where nothing could be opened.
        steps: steps that were planned with; None where there is no plan.
        seconds: what the preflight took.
    """

    lines: tuple[Line, ...]
    not_checked: tuple[str, ...]
    ranks: int | None
    steps: int | None
    seconds: float

    @property
    def status(self) -> Status:
        """The worst of all lines."""
        found = {line.status for line in self.lines}
        return next((status for status in _BY_WEIGHT if status in found), "pass")

    @property
    def ok(self) -> bool:
        """Whether no line fails."""
        return self.status != "fail"

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "status": self.status, "ok": self.ok}


def passed(check: str, found: str, *, source: str | None = None) -> Line:
    """A line of what is as it should be."""
    return Line(check=check, status="pass", found=found, source=source)


def warned(check: str, found: str, way_out: str = "", *, source: str | None = None) -> Line:
    """A line of what may not be meant."""
    return Line(check=check, status="warn", found=found, way_out=way_out, source=source)


def failed(check: str, found: str, way_out: str = "", *, source: str | None = None) -> Line:
    """A line of what breaks or spoils the run."""
    return Line(check=check, status="fail", found=found, way_out=way_out, source=source)


def worst(check: str, problems: list[tuple[Status, str, str]], otherwise: str, *, source: str | None = None) -> Line:
    """A line of several problems: (status, what was found, way out). Without any it passes, with ``otherwise``."""
    if not problems:
        return passed(check, otherwise, source=source)
    status = min((status for status, _, _ in problems), key=_BY_WEIGHT.index)
    found = "; ".join([*(found for _, found, _ in problems), otherwise])
    way_out = "; ".join(dict.fromkeys(way_out for _, _, way_out in problems if way_out))
    return Line(check=check, status=status, found=found, way_out=way_out, source=source)
