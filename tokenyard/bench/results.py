"""What a run of the benchmark found, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tokenyard.bench.choices import Choice
from tokenyard.bench.grades import Grades
from tokenyard.bench.metrics import METRICS, Figure
from tokenyard.bench.sample import Sample
from tokenyard.bench.variants import Variant

#: Of the JSON; it grows when a key changes its meaning.
JSON_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class VariantResult:
    """What was measured of one format. ``commands``: what was run to measure it, by the job's name."""

    variant: Variant
    figures: Mapping[str, Figure]
    num_shards: int
    digest: str
    commands: Mapping[str, str]

    def median(self, key: str) -> float | None:
        """The median of a figure, None where it wasn't measured."""
        figure = self.figures.get(key)
        return figure.median if figure else None


@dataclass(frozen=True, kw_only=True)
class PeerResult:
    """What was measured of another library on the shards of one variant; ``problem`` says why nothing was."""

    name: str
    package: str
    work: str
    variant: str
    command: str
    version: str | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """All of a run.

    ``notes`` are sentences on what could not be measured or made sure. ``command``: what repeats the run.
    """

    command: str
    begun: str
    sample: Sample
    settings: Mapping[str, Any]
    machine: Mapping[str, Any]
    disk: Figure | None
    tokens_per_sample: float | None
    variants: tuple[VariantResult, ...]
    peers: tuple[PeerResult, ...]
    grades: Mapping[str, Grades]
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values: every figure with its median, spread, unit and the values of all rounds."""
        return {
            "version": JSON_VERSION,
            "command": self.command,
            "begun": self.begun,
            "corpus": {name: value for name, value in asdict(self.sample).items() if name != "path"},
            "settings": dict(self.settings),
            "machine": dict(self.machine),
            "disk_mb_per_s": _figure(self.disk) if self.disk else None,
            "tokens_per_sample": self.tokens_per_sample,
            "variants": [self._variant(found) for found in self.variants],
            "peers": [_peer(peer) for peer in self.peers],
            "choices": [asdict(choice) for choice in self.choices],
            "notes": list(self.notes),
        }

    def _variant(self, found: VariantResult) -> dict[str, Any]:
        figures = {key: {**_figure(figure), "unit": METRICS[key].unit} for key, figure in found.figures.items()}
        return {
            "name": found.variant.spec,
            "title": found.variant.title,
            "format": found.variant.format,
            "options": dict(found.variant.options),
            "shards": found.num_shards,
            "digest": found.digest,
            "figures": figures,
            "grades": asdict(self.grades[found.variant.spec]),
            "commands": dict(found.commands),
        }


def _figure(figure: Figure) -> dict[str, Any]:
    return {"median": figure.median, "low": figure.low, "high": figure.high, "values": list(figure.values)}


def _peer(peer: PeerResult) -> dict[str, Any]:
    said = {name: getattr(peer, name) for name in ("name", "package", "version", "work", "variant", "command")}
    return said | {"problem": peer.problem, "figures": {key: _figure(f) for key, f in peer.figures.items()}}
