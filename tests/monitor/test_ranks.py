"""Ranks tell each other what they measured, and the one that holds the others up is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from tests.monitor.runs import write
from tokenyard.monitor.ranks import RankBoard, RankWindow, straggler

SCRIPT = Path(__file__).with_name("straggling.py")

pytestmark = pytest.mark.alone


def run_two_ranks(folder, kind):
    write(folder / "c", shard_bytes=1 << 20)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(SCRIPT), str(folder), str(folder / "c"), kind]
    ranks = [subprocess.Popen([*command, str(rank)], env=env, stderr=subprocess.PIPE) for rank in range(2)]
    try:
        said = [rank.communicate(timeout=200)[1].decode() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize(
    ("kind", "words"),
    [("data", ["rank 1 waits", "see to rank 1: "]), ("compute", ["rank 1 computes", "the machine of rank 1"])],
)
def test_a_rank_that_holds_the_others_up_is_named_by_rank_0(tmp_path, kind, words):
    found = run_two_ranks(tmp_path, kind)[0]
    told = [verdict for verdict in found if verdict and verdict[0] == "straggler"]
    # On a busy machine a rank may be late by itself for a window or two.
    assert [verdict for _, verdict in told if all(word in verdict for word in words)], found
    records = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert max(len(record["ranks"]) for record in records) == 2
    assert {record["rank"] for record in records} == {0}
    assert json.loads((tmp_path / "m.rank1.jsonl").read_text().splitlines()[0])["rank"] == 1


def window(rank, wait, compute):
    return RankWindow(rank=rank, step=9, wait_ms=wait, compute_ms=compute, verdict="why" if wait > 10 else "")


def test_ranks_that_are_alike_have_no_straggler():
    assert straggler([window(0, 1, 100)]) is None
    assert straggler([window(rank, 1, 100 + rank) for rank in range(4)]) is None
    # All wait: that is no rank's fault, and each has a verdict of its own.
    assert straggler([window(rank, 50, 50) for rank in range(4)]) is None


def test_the_straggler_is_the_rank_that_waits_most():
    found = straggler([window(0, 1, 100), window(1, 60, 41), window(2, 1, 99)])
    assert found.kind == "straggler"
    assert "rank 1 waits 60 ms of a step for its data, 59% of it, the other ranks 1%" in found.evidence
    assert found.advice == "see to rank 1: why"


def test_without_a_process_group_a_rank_is_alone():
    board = RankBoard()
    assert board.exchange(window(0, 1, 2)) == [window(0, 1, 2)]
    assert board.unknown == "torch.distributed is not initialized"


class Store(dict):
    """As that of torch.distributed, in this process."""

    def set(self, key, value):
        self[key] = value.encode()

    def check(self, keys):
        return all(key in self for key in keys)


def boards(monkeypatch, *names):
    """Boards that share a store of two ranks."""
    store = Store()
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(RankBoard, "_connected", lambda board: store)
    return [RankBoard(name) for name in names]


def test_what_evaluates_is_no_straggler_of_what_trains(monkeypatch):
    ours, training, evaluating = boards(monkeypatch, "train", "train", "eval")
    training.exchange(window(1, 1, 100))
    evaluating.exchange(window(1, 50, 50))
    assert ours.exchange(window(0, 1, 100)) == [window(0, 1, 100), window(1, 1, 100)]


def test_a_rank_that_leaves_no_new_window_is_left_out_until_it_does(monkeypatch):
    ours, other = boards(monkeypatch, "train", "train")
    other.exchange(window(1, 50, 50))
    assert [len(ours.exchange(window(0, 1, 100))) for _ in range(5)] == [2, 2, 2, 1, 1]
    other.exchange(window(1, 51, 50))
    assert len(ours.exchange(window(0, 1, 100))) == 2


def test_ranks_that_compute_next_to_nothing_are_no_stragglers():
    assert straggler([window(0, 0, 0.001), window(1, 0, 0.002)]) is None
