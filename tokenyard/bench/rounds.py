"""Every format written and read in every round, each time in a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenyard
from tokenyard.bench.peers import PeerRun, peer_runs, run_peer
from tokenyard.bench.processes import run_json
from tokenyard.bench.sample import Sample
from tokenyard.bench.settings import LEAST_SHARDS, MAX_SHARD_BYTES, BenchSettings
from tokenyard.bench.steps import OnStep, Steps
from tokenyard.bench.variants import Variant
from tokenyard.errors import BenchmarkError

#: The folder of the rows that every format is written from.
SAMPLE = "sample"
#: Seconds that a process may take whatever it does, and tokens a second that the slowest format is granted.
_LEAST_DEADLINE_S = 180.0
_SLOWEST_TOKENS_PER_S = 20_000


@dataclass(kw_only=True)
class Found:
    """What the rounds found of one variant."""

    writing: list[dict[str, Any]] = field(default_factory=list)
    reading: list[dict[str, Any]] = field(default_factory=list)
    commands: dict[str, str] = field(default_factory=dict)


class Rounds:
    """All measurements, and where they are gathered."""

    def __init__(self, settings: BenchSettings, sample: Sample, folder: Path, on_step: OnStep | None) -> None:
        self._settings = settings
        self._sample = sample
        self._folder = folder
        self.shard_bytes = settings.shard_bytes or min(MAX_SHARD_BYTES, -(-sample.raw_bytes // LEAST_SHARDS))
        self._deadline_s = _LEAST_DEADLINE_S + 60 * settings.seconds + sample.num_tokens / _SLOWEST_TOKENS_PER_S
        self.found = {variant.spec: Found() for variant in settings.variants}
        self.disk: list[float] = []
        self.peer_runs = peer_runs(settings.variants, self._told_peers()) if settings.peers else []
        self.peers: dict[str, list[dict[str, Any]]] = {run.key: [] for run in self.peer_runs}
        self.peer_problems: dict[str, str] = {}
        number = settings.rounds * (2 * len(settings.variants) + len(self.peer_runs))
        self._steps = Steps(settings, number, on_step)

    def run(self) -> None:
        """Measure every variant in every round, each round beginning with another one."""
        variants = list(self._settings.variants)
        for number in range(self._settings.rounds):
            turn = number % len(variants)
            for variant in variants[turn:] + variants[:turn]:
                self._write(number, variant)
                self._read(variant)
                for run in self.peer_runs:
                    if run.variant == variant:
                        self._peer(run)
            if self._settings.cold:
                found = self._work({"job": "disk", "path": SAMPLE}, "the disk")
                self.disk += found["figures"].values()

    def command_of_peer(self, run: PeerRun) -> str:
        """The command as a person would type it."""
        return shlex.join(run.command("python", "peer_scripts", run.variant.key))

    def _write(self, number: int, variant: Variant) -> None:
        self._steps.tell(f"write {variant.title}")
        path = variant.key if number == 0 else f"{variant.key}-again"
        job: dict[str, Any] = {"job": "write", "source": SAMPLE, "path": path, "format": variant.format}
        job |= {"options": dict(variant.options), "shard_bytes": self.shard_bytes}
        found = self._work(job, f"write {variant.title}")
        self.found[variant.spec].writing.append(found)
        if number == 0:
            self.found[variant.spec].commands["write"] = _command(job)
        else:
            shutil.rmtree(self._folder / path)

    def _read(self, variant: Variant) -> None:
        self._steps.tell(f"read {variant.title}")
        settings = self._settings
        job: dict[str, Any] = {"job": "read", "path": variant.key, "mode": self._sample.mode}
        job |= {"seq_len": settings.seq_len if self._sample.mode == "concat" else None}
        job |= {"batch_size": settings.batch_size, "seconds": settings.seconds, "seed": settings.seed}
        job["cold"] = settings.cold
        self.found[variant.spec].reading.append(self._work(job, f"read {variant.title}"))
        self.found[variant.spec].commands["read"] = _command(job)

    def _peer(self, run: PeerRun) -> None:
        assert self._settings.peers is not None
        self._steps.tell(f"{run.peer.name} on {run.variant.title}")
        if run.key in self.peer_problems:
            return
        try:
            found = run_peer(run, self._settings.peers, self._folder / run.variant.key)
        except BenchmarkError as e:
            self.peer_problems[run.key] = str(e)
            return
        if "missing" in found:
            self.peer_problems[run.key] = f"{found['missing']} is not installed in the environment of --python"
        else:
            self.peers[run.key].append(found)

    def _work(self, job: Mapping[str, Any], what: str) -> dict[str, Any]:
        command = [sys.executable, "-P", "-m", "tokenyard.bench.worker", json.dumps(dict(job))]
        return run_json(
            command, what=what, folder=self._folder, deadline_s=self._deadline_s, environment=_environment()
        )

    def _told_peers(self) -> dict[str, Any]:
        settings = self._settings
        told: dict[str, Any] = {"batch_size": settings.batch_size, "seconds": settings.seconds, "seed": settings.seed}
        return told | {"row_length": self._sample.row_length, "seq_len": settings.seq_len}


def _environment() -> dict[str, str]:
    """The environment, in which this tokenyard is found from any folder, also where it runs from its sources."""
    home = Path(tokenyard.__file__).parent.parent
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if home.name not in ("site-packages", "dist-packages"):
        paths.insert(0, str(home))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _command(job: Mapping[str, Any]) -> str:
    return shlex.join(["python", "-P", "-m", "tokenyard.bench.worker", json.dumps(dict(job))])
