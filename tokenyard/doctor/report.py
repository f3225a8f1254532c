"""What an examination found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tokenyard.config import LoaderConfig
from tokenyard.doctor.changes import as_yaml, changed
from tokenyard.doctor.check import Check
from tokenyard.doctor.need import Need
from tokenyard.doctor.source import Source
from tokenyard.doctor.sweep import wait_p99
from tokenyard.doctor.trial import Trial
from tokenyard.monitor.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class DoctorReport:
    """What was found.

    Attributes:
        need: what the job asks for.
        configured: the job's loader settings.
        cores: of this machine, that this process may run on.
        source: what was read.
        ceiling: the checked setting with one batch over and over, so that storage costs nothing; by one rank.
        tried: settings tried by one rank, in the order in which they were.
        warm: the checked setting by one rank, with what it reads in memory; None where that was not measured.
        check: the setting to take, by all ranks.
        limit: what keeps the loader from giving more; None where the ranks are fed, or it can't be told, as without a
            step time.
        notes: what to know of the figures.
    """

    need: Need
    configured: LoaderConfig
    cores: int
    source: Source
    ceiling: Trial
    tried: Sequence[Trial]
    warm: Trial | None
    check: Check
    limit: Verdict | None
    notes: Sequence[str]

    @property
    def is_fed(self) -> bool | None:
        """Whether all ranks are fed with the setting to take; None where nobody said what a step takes."""
        return None if self.need.step_seconds is None else self.check.is_fed(self.need)

    @property
    def is_fed_as_configured(self) -> bool | None:
        """Whether they are with the job's own settings; None where nobody said what a step takes."""
        return None if self.is_fed is None else self.is_fed and not self.changes

    @property
    def changes(self) -> dict[str, Any]:
        """The keys of `loader` that must change, with their new values.

        There are none where nothing would help, or nobody said what a step takes.
        """
        if not self.is_fed:
            return {}
        return changed(self.configured, self.check.loader)

    @property
    def yaml(self) -> str:
        """The changes as YAML; empty where there are none."""
        return as_yaml(self.changes)

    @property
    def node_samples_per_second(self) -> float:
        """What the ranks of the node have in all with the setting that was checked."""
        return self.check.steps_per_second * self.need.samples * self.need.gpus

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        check, need = self.check, self.need
        return {
            "fed": self.is_fed,
            "fed_as_configured": self.is_fed_as_configured,
            "changes": self.changes,
            "limit": None if self.limit is None else asdict(self.limit),
            "need": {**asdict(need), "steps_per_second": need.steps_per_second},
            "cores": self.cores,
            "source": self.source.told(),
            "ceiling": self._trial(self.ceiling),
            "tried": [self._trial(trial) for trial in self.tried],
            "warm": None if self.warm is None else self._trial(self.warm),
            "check": {
                "loader": self._loader(check.loader),
                "ranks": len(check.fast),
                "steps_per_second": check.steps_per_second,
                "node_samples_per_second": self.node_samples_per_second,
                "step_seconds": check.step_seconds,
                "steps": len(check.waits),
                "wait_share": check.wait_share,
                "wait_p99_seconds": check.wait_p99,
                "cores": check.cores,
            },
            "notes": list(self.notes),
        }

    def _trial(self, trial: Trial) -> dict[str, Any]:
        return {
            "loader": self._loader(trial.loader),
            "steps_per_second": trial.steps_per_second,
            "batches_per_second": trial.steps_per_second * self.need.micro_batches,
            "samples_per_second": trial.steps_per_second * self.need.samples,
            "tokens_per_second": trial.steps_per_second * self.need.tokens,
            "cores": trial.cores,
            "cpu_seconds_per_step": trial.cpu_seconds_per_step,
            "wait_p99_seconds": wait_p99(trial, self.need),
            "resident_share": trial.resident_share,
        }

    @staticmethod
    def _loader(loader: LoaderConfig) -> dict[str, Any]:
        return loader.model_dump(include={"num_threads", "num_workers", "prefetch_factor"})
