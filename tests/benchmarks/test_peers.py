"""Peers in processes of their own: each that is installed gives the tokens that it was given, and failures are told."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import corpora, loader, peers

NAMES = [*loader.PEERS, loader.TUNED, "StreamingDataset zstd", "webdataset gz"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", corpora.zipf_rows(64, 16))
    return tmp_path / "rows.npy"


@pytest.mark.parametrize("name", NAMES)
def test_a_peer_gives_the_tokens_that_it_was_given(name: str, rows: Path) -> None:
    if name not in peers.installed([name]):
        pytest.skip(f"{name} is not in the peers' environment; make it again from requirements/peers.txt")
    options = {"seq_len": 16} if name == "Megatron GPTDataset" else {}
    with peers.peer(name, rows, rows.parent / "peer", batch_size=4, num_workers=0, **options) as ask:
        assert ask(0.01) > 0
        assert ask(0.01) > 0


def test_gpt_dataset_takes_documents_whose_lengths_lie_beside(tmp_path: Path) -> None:
    name = "Megatron GPTDataset"
    if name not in peers.installed([name]):
        pytest.skip(f"{name} is not in the peers' environment; make it again from requirements/peers.txt")
    tokens = corpora.zipf_rows(64, 16).reshape(-1)
    np.save(tmp_path / "tokens.npy", tokens)
    np.save(tmp_path / "lengths.npy", corpora.document_lengths(len(tokens), 30))
    with peers.peer(name, tmp_path / "tokens.npy", tmp_path, batch_size=4, num_workers=0, seq_len=16) as ask:
        assert ask(0.01) > 0


def test_a_peer_that_gives_other_tokens_is_told(rows: Path) -> None:
    with peers.peer("webdataset", rows, rows.parent / "peer", batch_size=4, num_workers=0):
        pass
    np.save(rows, corpora.zipf_rows(64, 16, seed=1))
    with (
        pytest.raises(peers.PeerError, match=re.compile(r"webdataset ended with status 1:.*other tokens", re.DOTALL)),
        peers.peer("webdataset", rows, rows.parent / "peer", batch_size=4, num_workers=0),
    ):
        pass


def test_no_environment_has_no_peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PEERS_VENV", str(tmp_path))
    assert peers.find_python() is None
    assert peers.installed(["webdataset"]) == []
