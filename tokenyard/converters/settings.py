"""What the settings of all jobs are: a job's own, and the options of the format's writer, told apart by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """What decides on the bytes that a job writes. ``options``: those of the format's writer."""

    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, **given: Any) -> Self:
        """The settings given as to the job's function, where what is no setting of the job is an option."""
        own = {f.name for f in fields(cls)} - {"options"}
        return cls(
            **{name: value for name, value in given.items() if name in own},
            options={name: value for name, value in given.items() if name not in own},
        )
