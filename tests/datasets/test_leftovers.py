"""Loaders that are killed leave nothing behind: no shared memory, no lock, no temporary file; the next ones start."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import random_rows, write_corpus
from tokenyard.corpus import open_corpus
from tokenyard.datasets.loader import build_dataloader
from tokenyard.errors import ConfigError

SHARED_MEMORY = Path("/dev/shm")

LOADER = """
import json, sys, tokenyard
config, rank = json.loads(sys.argv[1]), int(sys.argv[2])
loader = tokenyard.build_dataloader(config, rank=rank, world_size=8)
while True:
    for batch in loader:
        print(json.dumps([batch["sample_ids"].tolist(), loader.state_dict()]), flush=True)
"""


def start(path: Path, temporary: Path, **loader: Any) -> list[tuple[subprocess.Popen[str], Any]]:
    """Eight ranks, and what each gives first."""
    data = {"path": str(path), "sample": {"seq_len": 8}}
    config = {"data": data, "order": {"global_batch_size": 8}, "loader": loader}
    command = [sys.executable, "-c", LOADER, json.dumps(config)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary)}
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)
        for rank in range(8)
    ]
    return [(rank, json.loads(rank.stdout.readline()) if rank.stdout else None) for rank in ranks]


def kill(ranks: list[tuple[subprocess.Popen[str], Any]]) -> None:
    """Kill each rank and, as the end of a job does, the processes that it started."""
    for rank, _ in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(rank.pid, signal.SIGKILL)
    for rank, _ in ranks:
        rank.communicate()


def ours_in(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if "tokenyard" in name}


def of_torch(ranks: list[tuple[subprocess.Popen[str], Any]]) -> set[str]:
    """Shared memory of torch, which is named after the process that made it."""
    pids = {str(rank.pid) for rank, _ in ranks}
    return {name for name in os.listdir(SHARED_MEMORY) if name.startswith("torch_") and name.split("_")[1] in pids}


@pytest.fixture
def short() -> Iterator[Path]:
    """A temporary folder whose path leaves room for the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="ty-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_a_temporary_folder_too_deep_for_sockets_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path / "corpus", random_rows(0, 200, 20))
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/" + 80 * "t")
    settings = {"data": {"path": str(tmp_path / "corpus"), "sample": {"seq_len": 8}}, "order": {"global_batch_size": 8}}
    build_dataloader(settings, 0, 1)
    with pytest.raises(ConfigError, match=r"85 bytes, at most 75 fit; set TMPDIR to a shorter path"):
        build_dataloader({**settings, "loader": {"num_workers": 1}}, 0, 1)


def test_eight_killed_loaders_leave_nothing_and_the_next_eight_begin_alike(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", random_rows(0, 200, 20), format="parquet")
    (tmp_path / "temporary").mkdir()
    files = sorted(p for p in tmp_path.rglob("*"))
    shared = ours_in(SHARED_MEMORY)
    first = start(tmp_path / "corpus", tmp_path / "temporary")
    kill(first)
    second = start(tmp_path / "corpus", tmp_path / "temporary")
    kill(second)
    assert [found for _, found in first] == [found for _, found in second]
    ids = [sample for _, (samples, _) in first for sample in samples]
    assert len(set(ids)) == 8
    assert sorted(p for p in tmp_path.rglob("*")) == files
    assert ours_in(SHARED_MEMORY) == shared
    assert not of_torch(first + second)


def test_eight_killed_loaders_with_workers_leave_no_process_and_no_lock(tmp_path: Path, short: Path) -> None:
    write_corpus(tmp_path / "corpus", random_rows(0, 200, 20))
    files = sorted(p for p in (tmp_path / "corpus").rglob("*"))
    shared = ours_in(SHARED_MEMORY)
    ranks = start(tmp_path / "corpus", short, num_workers=1)
    try:
        for rank, _ in ranks:
            os.kill(rank.pid, signal.SIGKILL)  # the rank alone; its worker finds out by itself
        for rank, _ in ranks:
            rank.communicate(timeout=120)  # ends when the worker has closed its end of the pipe too
    finally:
        kill(ranks)
    again = start(tmp_path / "corpus", short)
    kill(again)
    assert [found for _, found in again] == [found for _, found in ranks]
    assert sorted(p for p in (tmp_path / "corpus").rglob("*")) == files
    assert ours_in(SHARED_MEMORY) == shared
    assert not [p for p in short.rglob("*") if "tokenyard" in p.name]


KILLED_BY_ITS_WORKER = """
import os, signal, sys
import tokenyard

class Killer:
    def __call__(self, sample, rng):
        return sample
    def __getstate__(self):
        return os.getpid()
    def __setstate__(self, pid):
        os.kill(pid, signal.SIGKILL)

if __name__ == "__main__":
    config = {
        "data": {"path": sys.argv[1], "sample": {"seq_len": 8}},
        "order": {"global_batch_size": 8},
        "loader": {"num_workers": 2, "multiprocessing_context": sys.argv[2]},
    }
    for batch in tokenyard.build_dataloader(config, rank=0, world_size=1, transform=Killer()):
        pass
"""


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_a_rank_that_dies_while_its_workers_start_leaves_none(tmp_path: Path, short: Path, context: str) -> None:
    write_corpus(tmp_path / "corpus", random_rows(0, 200, 20))
    (tmp_path / "rank.py").write_text(KILLED_BY_ITS_WORKER)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(short)}
    command = [sys.executable, str(tmp_path / "rank.py"), str(tmp_path / "corpus"), context]
    # Its output ends when no process holds the other end of the pipe.
    rank = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=120)
    assert rank.returncode == -signal.SIGKILL, rank.stdout


def read_sum(path: str) -> int:
    return sum(int(batch.tokens.sum()) for batch in open_corpus(path).batches())


def test_twenty_corpora_open_from_a_pool_of_four_processes(tmp_path: Path) -> None:
    paths = []
    for i in range(20):
        write_corpus(tmp_path / str(i), random_rows(i, 30, 10))
        paths.append(str(tmp_path / str(i)))
    shared = ours_in(SHARED_MEMORY)
    files = sorted(p for p in tmp_path.rglob("*"))
    with multiprocessing.get_context("forkserver").Pool(4) as pool:
        assert pool.map(read_sum, paths) == [read_sum(path) for path in paths]
    assert ours_in(SHARED_MEMORY) == shared
    assert sorted(p for p in tmp_path.rglob("*")) == files


HELD = """
import json, sys, torch, tokenyard
matrix = torch.randn(1500, 1500)

def busy(sample, rng):
    matrix @ matrix
    return sample

loader = tokenyard.build_dataloader(json.loads(sys.argv[1]), rank=0, world_size=1, transform=busy)
held = iter(loader)
next(held)
sys.exit(3)
"""


def test_a_program_that_ends_while_threads_compute_keeps_its_exit_status(tmp_path: Path) -> None:
    write_corpus(tmp_path / "c", random_rows(seed=1, num_rows=100, longest=20))
    data = {"path": str(tmp_path / "c"), "sample": {"seq_len": 8}}
    config = {"data": data, "order": {"global_batch_size": 8}, "loader": {"num_threads": 2}}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", HELD, json.dumps(config)]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (3, "")
