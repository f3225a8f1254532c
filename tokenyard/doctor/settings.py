"""What an examination is told."""

from __future__ import annotations

from dataclasses import dataclass

from tokenyard.config import TrainConfig
from tokenyard.datasets.transforms import Transform
from tokenyard.errors import ConfigError

DEFAULT_SECONDS = 30.0
#: Less would measure how threads begin.
_LEAST_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class DoctorSettings:
    """See `tokenyard doctor --help`.

    Args:
        config: of the job.
        transform: what the job hands to `build_dataloader`.
        step_ms: what an optimizer step computes on a GPU; None where that isn't known.
        gpus: data-parallel ranks on this node.
        nodes: how many such nodes the job has.
        seconds: what is measured takes about so long in all; processes that begin are not counted.
        warm: whether the page cache is left as it is, in place of measuring a first epoch.

    Raises ConfigError.
    """

    config: TrainConfig
    transform: Transform | None = None
    step_ms: float | None = None
    gpus: int = 1
    nodes: int = 1
    seconds: float = DEFAULT_SECONDS
    warm: bool = False

    def __post_init__(self) -> None:
        if self.step_ms is not None and not 0 < self.step_ms < float("inf"):
            raise ConfigError(f"step_ms: expected the milliseconds of a step, above 0, found {self.step_ms}")
        for name in ("gpus", "nodes"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(f"{name}: expected a whole number from 1 on, found {value}")
        if not _LEAST_SECONDS <= self.seconds < float("inf"):
            raise ConfigError(
                f"seconds: expected {_LEAST_SECONDS:g} or more, found {self.seconds}; less would measure how threads "
                "begin, and not how they go on"
            )

    @property
    def world_size(self) -> int:
        """Data-parallel ranks of the job."""
        return self.gpus * self.nodes

    @property
    def step_seconds(self) -> float | None:
        """`step_ms` in seconds."""
        return None if self.step_ms is None else self.step_ms / 1e3

    @property
    def trial_seconds(self) -> float:
        """How long one setting is tried."""
        return self.seconds / 20

    @property
    def sweep_seconds(self) -> float:
        """After which no further setting is tried."""
        return 0.55 * self.seconds

    @property
    def check_seconds(self) -> float:
        """How long all ranks run at once, first as fast as they can and then at the step time."""
        return 0.15 * self.seconds
