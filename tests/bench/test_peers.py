"""Other libraries on the same shards: the scripts run in their environment, and say so when one is missing."""

import json
import sys

import numpy as np
import pytest

from tests.corpora import write_corpus
from tests.peers import run_in_peers
from tokenyard.bench import BenchSettings, PeersSettings, run_bench
from tokenyard.bench.peers import PEERS, SCRIPTS, peer_runs, run_peer
from tokenyard.bench.variants import parse_variants
from tokenyard.errors import BenchmarkError
from tokenyard.manifest import Layout

TOLD = {"batch_size": 4, "seconds": 0.05, "seed": 0, "seq_len": 32}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A corpus of packed rows for each format that a peer reads, and one of documents."""
    home = tmp_path_factory.mktemp("peers")
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 1000, (80, 32)).tolist()
    for format in {peer.format for peer in PEERS}:
        write_corpus(home / format, rows, format=format, layout=Layout(kind="packed", seq_len=32), shard_bytes=1500)
        documents = [row[: 1 + i % 31] for i, row in enumerate(rows)]
        write_corpus(home / f"{format}-documents", documents, format=format, shard_bytes=1500)
    return home


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.script)
def test_each_script_measures_its_library(peer, home):
    job = json.dumps({"path": str(home / peer.format), "row_length": 32, **TOLD})
    found = run_in_peers(SCRIPTS / peer.script, job)
    assert found["version"]
    key = "loader" if peer.work == "training" else "sequential"
    assert found[key] > 0


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.work == "training"], ids=lambda peer: peer.script)
def test_documents_of_any_length_are_measured_too(peer, home):
    job = json.dumps({"path": str(home / f"{peer.format}-documents"), "row_length": None, **TOLD})
    assert run_in_peers(SCRIPTS / peer.script, job)["loader"] > 0


def test_every_script_belongs_to_a_peer():
    assert {path.name for path in SCRIPTS.glob("*.py")} == {peer.script for peer in PEERS} | {"common.py"}


def test_a_missing_library_is_told_by_name(home):
    (run,) = (r for r in peer_runs(parse_variants(["mds"]), {**TOLD, "row_length": 32}))
    # The tests' own environment has no streaming.
    assert run_peer(run, PeersSettings(python=sys.executable), home / "mds") == {"missing": "streaming"}


def test_an_interpreter_may_be_named_by_a_relative_path_or_a_bare_name(home, tmp_path, monkeypatch):
    (tmp_path / "python").symlink_to(sys.executable)
    (run,) = (r for r in peer_runs(parse_variants(["mds"]), {**TOLD, "row_length": 32}))
    monkeypatch.chdir(tmp_path)
    assert "missing" in run_peer(run, PeersSettings(python="./python"), home / "mds")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "missing" in run_peer(run, PeersSettings(python="python"), home / "mds")


def test_a_script_that_fails_is_told_with_its_last_words(home):
    (run,) = (r for r in peer_runs(parse_variants(["npy"]), {**TOLD, "row_length": 32}))
    with pytest.raises(BenchmarkError, match=r"(?s)memmap in a DataLoader on npy: ended with status 1.*Error"):
        run_peer(run, PeersSettings(python=sys.executable), home / "nowhere")


def test_a_run_with_peers_names_those_that_are_missing_and_goes_on(home, tmp_path):
    found = run_bench(
        BenchSettings(
            source=home / "npy",
            folder=tmp_path,
            rounds=1,
            seconds=0.02,
            batch_size=4,
            cold=False,
            variants=parse_variants(["npy", "mds"]),
            peers=PeersSettings(python=sys.executable),
        ),
        command="tokenyard bench",
    )
    memmap, streaming = found.peers
    assert memmap.figures["loader"].median > 0
    assert memmap.version
    assert streaming.problem == "streaming is not installed in the environment of --python"
    assert not streaming.figures
    assert found.to_dict()["peers"][1]["problem"] == streaming.problem
