"""Loaders that are killed leave nothing behind: no shared memory, no lock, no temporary file; the next ones start."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.corpora import random_rows, write_corpus
from tokenyard.corpus import open_corpus

LOADER = """
import sys, tokenyard
config = {"data": {"path": sys.argv[1], "sample": {"seq_len": 8}}, "order": {"global_batch_size": 8}}
loader = tokenyard.build_dataloader(config, rank=int(sys.argv[2]), world_size=8)
while True:
    for batch in loader:
        print(batch["sample_ids"].tolist(), flush=True)
"""


def start(path: Path) -> list[tuple[subprocess.Popen[str], str]]:
    """Eight ranks, and the first line that each prints."""
    command = [sys.executable, "-c", LOADER, str(path)]
    ranks = [subprocess.Popen([*command, str(r)], stdout=subprocess.PIPE, text=True) for r in range(8)]
    return [(rank, rank.stdout.readline() if rank.stdout else "") for rank in ranks]


def kill(ranks: list[tuple[subprocess.Popen[str], str]]) -> None:
    for rank, _ in ranks:
        os.kill(rank.pid, signal.SIGKILL)
        rank.communicate()


def ours_in(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if "tokenyard" in name}


def test_eight_killed_loaders_leave_nothing_and_the_next_eight_begin_alike(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", random_rows(0, 200, 20))
    files = sorted(p for p in tmp_path.rglob("*"))
    shared = ours_in(Path("/dev/shm"))
    first = start(tmp_path / "corpus")
    kill(first)
    second = start(tmp_path / "corpus")
    kill(second)
    assert [line for _, line in first] == [line for _, line in second]
    assert all(line for _, line in first)
    assert sorted(p for p in tmp_path.rglob("*")) == files
    assert ours_in(Path("/dev/shm")) == shared


def read_sum(path: str) -> int:
    return sum(int(batch.tokens.sum()) for batch in open_corpus(path).batches())


def test_twenty_corpora_open_from_a_pool_of_four_processes(tmp_path: Path) -> None:
    paths = []
    for i in range(20):
        write_corpus(tmp_path / str(i), random_rows(i, 30, 10))
        paths.append(str(tmp_path / str(i)))
    with multiprocessing.get_context("forkserver").Pool(4) as pool:
        assert pool.map(read_sum, paths) == [read_sum(path) for path in paths]
