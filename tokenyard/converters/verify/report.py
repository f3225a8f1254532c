"""What a verification found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something that is wrong, in words that name the file.

    ``file``: its name in the corpus's folder. ``shard``: the number of the shard it belongs to, if to one. ``rows``:
    the first and the last row of the corpus concerned, None where they aren't known. ``is_damage``: the corpus itself
    is damaged, and not only other than what it was compared with.
    """

    message: str
    file: str | None = None
    shard: int | None = None
    rows: tuple[int, int] | None = None
    is_damage: bool = True

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a corpus of the good part leaves out, and where it is.

    ``num_rows`` and ``num_tokens`` count shards of which these are known; ``num_uncounted_shards`` are the others.
    """

    path: str
    shards: tuple[str, ...]
    num_rows: int
    num_tokens: int
    num_uncounted_shards: int = 0

    @property
    def num_shards(self) -> int:
        """How many shards are left out."""
        return len(self.shards)


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """What was found. ``problems`` is empty when the corpus is whole; each names a file, mostly a shard, and rows.

    ``mode``: ``"quick"`` or ``"full"``. ``digest``: of the rows, None when some can't be read, or none were read.
    ``reference``: the official library that read the corpus too. ``notes``: what could not be verified, and why.
    ``quarantine``: what was left out of the good part, when one was written.
    """

    path: str
    mode: str
    against: str | None
    reference: str | None
    num_files: int
    num_shards: int
    num_rows: int
    num_tokens: int
    digest: str | None
    expected_digest: str | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    quarantine: Loss | None
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def damaged(self) -> bool:
        """Whether the corpus itself is; else the problems are how it differs from the other one."""
        return any(p.is_damage for p in self.problems)

    @property
    def bad_shards(self) -> tuple[int, ...]:
        """The numbers of the shards that are damaged."""
        return bad_shards(self.problems)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "ok": self.ok, "damaged": self.damaged, "bad_shards": list(self.bad_shards)}


def bad_shards(problems: tuple[Problem, ...]) -> tuple[int, ...]:
    """The numbers of the shards that some of the problems say are damaged."""
    return tuple(sorted({p.shard for p in problems if p.is_damage and p.shard is not None}))
