"""Jobs of the command line that are stopped from outside, and jobs in parts."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.corpora import random_rows, write_corpus
from tokenyard.corpus import open_corpus
from tokenyard.testing.round_trips import contents

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

#: Python runs it when it begins. A job with a slow disk is still at work when it has done some of its tasks.
SLOW_DISK = """
import os, time
fsync = os.fsync
def slow(handle):
    time.sleep(0.03)
    fsync(handle)
os.fsync = slow
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "corpus"
    write_corpus(path, random_rows(seed=1, num_rows=40_000, longest=60))
    return path


@pytest.fixture(scope="module")
def whole(source: Path) -> dict[str, bytes]:
    place = source.parent / "whole"
    finished(source, place)
    return contents(place)


def command(source: Path, place: Path, *more: object) -> list[str]:
    job = ["convert", source, place, "--to", "csv", "-o", "shard_bytes=30000", *more]
    return [sys.executable, "-m", "tokenyard", *map(str, job)]


def start(source: Path, place: Path, *more: object, limit: int | None = None) -> subprocess.Popen[str]:
    """Begin a job, on a slow disk."""

    def limited() -> None:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background inherits that it is ignored
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    (source.parent / "slow").mkdir(exist_ok=True)
    (source.parent / "slow/sitecustomize.py").write_text(SLOW_DISK)
    env = {**ENV, "PYTHONPATH": os.pathsep.join([str(source.parent / "slow"), ENV["PYTHONPATH"]])}
    return subprocess.Popen(
        command(source, place, *more), env=env, stderr=subprocess.PIPE, text=True, preexec_fn=limited
    )


def finished(source: Path, place: Path, *more: object, code: int = 0) -> str:
    """Run a job to its end. Returns what it says."""
    ended = subprocess.run(command(source, place, *more), env=ENV, capture_output=True, text=True, timeout=120)
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


def until(job: subprocess.Popen[str], reached: Callable[[], object]) -> None:
    end = time.monotonic() + 100
    while not reached():
        assert job.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)


def tasks_done(place: Path) -> int:
    return sum(ledger.read_bytes().count(b"\n") for ledger in place.glob(".tokenyard/job/done/*.jsonl"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_is_told_to_end_says_that_it_can_go_on(
    tmp_path: Path, source: Path, whole: dict[str, bytes], number: int, code: int, workers: int
) -> None:
    job = start(source, tmp_path / "out", "--workers", workers)
    until(job, lambda: tasks_done(tmp_path / "out") >= 3)
    job.send_signal(number)
    _, said = job.communicate(timeout=60)
    assert job.returncode == code, said
    assert "the same job, run again, goes on with it" in said
    assert "Traceback" not in said
    finished(source, tmp_path / "out")
    assert contents(tmp_path / "out") == whole


def test_a_job_killed_again_and_again_comes_to_its_end(tmp_path: Path, source: Path, whole: dict[str, bytes]) -> None:
    for wanted in (1, 5, 9, 14):
        job = start(source, tmp_path / "out", "--workers", 2)
        until(job, lambda wanted=wanted: tasks_done(tmp_path / "out") >= wanted)
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
    finished(source, tmp_path / "out", "--workers", 2)
    assert contents(tmp_path / "out") == whole


def children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_text().split())


def test_a_worker_that_the_system_kills_is_told_and_the_job_goes_on(
    tmp_path: Path, source: Path, whole: dict[str, bytes]
) -> None:
    job = start(source, tmp_path / "out", "--workers", 2)
    until(job, lambda: tasks_done(tmp_path / "out") >= 2)
    *_, worker = children(job.pid)
    os.kill(worker, signal.SIGKILL)
    _, said = job.communicate(timeout=60)
    assert job.returncode == 1
    assert "the system killed it for want of memory: run again with fewer workers" in said
    assert "the same job, run again, goes on with it" in said
    finished(source, tmp_path / "out")
    assert contents(tmp_path / "out") == whole


def test_a_full_disk_is_told_and_what_was_done_is_kept(tmp_path: Path, source: Path, whole: dict[str, bytes]) -> None:
    finished(source, tmp_path / "out", "--task", "2/3")
    done = tasks_done(tmp_path / "out")
    job = start(source, tmp_path / "out", limit=20_000)
    _, said = job.communicate(timeout=60)
    assert (job.returncode, tasks_done(tmp_path / "out")) == (1, done)
    assert "can't write" in said
    assert "the same job, run again, goes on with it" in said
    finished(source, tmp_path / "out")
    assert contents(tmp_path / "out") == whole


def test_parts_are_done_by_number_and_then_made_whole(tmp_path: Path, source: Path, whole: dict[str, bytes]) -> None:
    place = tmp_path / "out"
    said = finished(source, place, "--task", "2/2")
    assert "did its tasks (2/2)" in said
    assert "num open tasks" in said
    assert "--task K/N" in finished(source, place, "--finish", code=2)
    finished(source, place, "--task", "1/2", "--workers", 2)
    assert "converted" in finished(source, place, "--finish")
    assert contents(place) == whole
    assert len(open_corpus(place)) == 40_000


@pytest.mark.parametrize("task", ["3", "a/b", "1/2/3", "-1/2", ""])
def test_a_part_that_is_no_part_is_refused(tmp_path: Path, source: Path, task: str) -> None:
    assert "expected K/N, as 3/16" in finished(source, tmp_path / "out", f"--task={task}", code=2)


def test_a_part_and_the_end_are_not_asked_for_at_once(tmp_path: Path, source: Path) -> None:
    said = finished(source, tmp_path / "out", "--task", "1/2", "--finish", code=2)
    assert "give one of both" in said


def test_the_job_array_of_the_example_gives_the_same_bytes(
    tmp_path: Path, source: Path, whole: dict[str, bytes]
) -> None:
    script = Path(__file__).parents[2] / "examples/slurm/convert.sbatch"
    (tmp_path / "tokenyard").write_text(f'#!/bin/sh\nexec {sys.executable} -m tokenyard "$@"\n')
    (tmp_path / "tokenyard").chmod(0o755)
    text = script.read_text()
    assert "#SBATCH --array=1-16" in text
    shortened = tmp_path / "convert.sbatch"
    shortened.write_text(text.replace("shares=16 ", "shares=3 "))
    env = {**ENV, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    arguments = command(source, tmp_path / "out")[4:]
    for more in (*({"SLURM_ARRAY_TASK_ID": number} for number in "213"), {"FINISH": "1"}):
        ended = subprocess.run(
            ["bash", shortened, *arguments], env={**env, **more}, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
    assert contents(tmp_path / "out") == whole
