"""Other libraries on the same shards: a script each, run by an interpreter of an environment that has them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenyard.bench.processes import run_json
from tokenyard.bench.settings import PeersSettings
from tokenyard.bench.variants import Variant
from tokenyard.errors import BenchmarkError, ConfigError

SCRIPTS = Path(__file__).parent / "peer_scripts"


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A way of another library to read a format. ``work``: training (shuffled batches of tensors) or reading (all)."""

    name: str
    package: str
    script: str
    format: str
    work: str


PEERS = (
    Peer(
        name="StreamingDataset",
        package="mosaicml-streaming",
        script="streaming_mds.py",
        format="mds",
        work="training",
    ),
    Peer(name="WebDataset", package="webdataset", script="webdataset_tar.py", format="webdataset", work="training"),
    Peer(
        name="datasets, unpacked to Arrow",
        package="datasets",
        script="datasets_map.py",
        format="parquet",
        work="training",
    ),
    Peer(
        name="datasets, streaming", package="datasets", script="datasets_iterable.py", format="parquet", work="training"
    ),
    Peer(name="memmap in a DataLoader", package="torch", script="torch_memmap.py", format="npy", work="training"),
    Peer(name="pyarrow", package="pyarrow", script="pyarrow_parquet.py", format="parquet", work="reading"),
    Peer(name="pandas", package="pandas", script="pandas_parquet.py", format="parquet", work="reading"),
    Peer(name="DuckDB", package="duckdb", script="duckdb_parquet.py", format="parquet", work="reading"),
)


@dataclass(frozen=True, kw_only=True)
class PeerRun:
    """A peer and the variant that it reads. ``told``: the rest of its job."""

    peer: Peer
    variant: Variant
    told: Mapping[str, Any]

    @property
    def key(self) -> str:
        """A name for links."""
        return f"{Path(self.peer.script).stem}-{self.variant.key}".replace("_", "-")

    def command(self, python: str, scripts: str, path: str) -> list[str]:
        """What is run. ``scripts``: the folder of scripts; ``path``: that of the shards."""
        return [python, "-I", str(Path(scripts) / self.peer.script), json.dumps({"path": path, **self.told})]


def peer_runs(variants: Sequence[Variant], told: Mapping[str, Any]) -> list[PeerRun]:
    """All that there is to run over the variants."""
    return [PeerRun(peer=p, variant=v, told=told) for v in variants for p in PEERS if p.format == v.format]


def check_python(python: str) -> None:
    """Raise ConfigError unless this is an interpreter that runs."""
    command = [python, "-I", "-c", "print('{}')"]
    try:
        run_json(command, what="--python", folder=Path.cwd(), deadline_s=60)
    except BenchmarkError as e:
        raise ConfigError(f"{e}; give the interpreter of an environment that has the peers, as venv/bin/python") from e


def _from_anywhere(python: str) -> str:
    """An interpreter's path that holds in other folders too; a bare name is looked for as the system does."""
    return os.path.abspath(python) if os.sep in python else python


def run_peer(run: PeerRun, settings: PeersSettings, shards: Path) -> dict[str, Any]:
    """What a script found: its library's ``version`` and figures, or the module that is ``missing``.

    It runs in a folder of its own, sees no hub, and can't leave files behind. Raises BenchmarkError.
    """
    with tempfile.TemporaryDirectory(prefix="tokenyard-peer-", ignore_cleanup_errors=True) as home:
        return run_json(
            run.command(_from_anywhere(settings.python), str(SCRIPTS), str(shards.resolve())),
            what=f"{run.peer.name} on {run.variant.title}",
            folder=Path(home),
            deadline_s=settings.deadline_s,
            environment={
                "PATH": os.environ.get("PATH", os.defpath),
                "LANG": "C.UTF-8",
                "HOME": home,
                "TMPDIR": home,
                "HF_HOME": home,
                "HF_HUB_OFFLINE": "1",
            },
        )
