"""The example, killed with all its processes, goes on as if nothing had been: the same samples, and the same losses.

To the last bit at the same number of ranks; at another, where sums are made in another order, to 1e-4.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.corpora import FORMATS, write_corpus

ROOT = Path(__file__).parent.parent
NUM_STEPS, SAVE_EVERY = 24, 4
KINDS = ["corpus", "mixture"]

# The example, whose second checkpoint stops half written for as long as it takes to be killed.
STOPS_IN_CHECKPOINT = """
import os, runpy, sys, time

def stop(descriptor, sync=os.fsync, calls=[]):
    calls.append(descriptor)
    if len(calls) < 3:  # a checkpoint syncs its file, then its folder
        return sync(descriptor)
    os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
    print("half written", flush=True)
    time.sleep(600)

os.fsync = stop
sys.argv = ["examples/train.py", *sys.argv[1:]]
runpy.run_path("examples/train.py", run_name="__main__")
"""


@dataclass(frozen=True)
class Printed:
    """What a run printed of each step, by its number."""

    losses: dict[int, str]
    samples: dict[int, str]
    batches: str | None

    @classmethod
    def of(cls, text: str) -> "Printed":
        steps = re.findall(r"^step (\d+) loss (\S+) samples ([0-9a-f]{64})$", text, re.MULTILINE)
        batches = re.findall(r"^batches ([0-9a-f]{64})$", text, re.MULTILINE)
        return cls(
            losses={int(step): loss for step, loss, _ in steps},
            samples={int(step): samples for step, _, samples in steps},
            batches=batches[0] if batches else None,
        )

    @property
    def steps(self) -> list[int]:
        return list(self.losses)


def rows(seed: int, num_rows: int) -> tuple[list[list[int]], list[list[int]]]:
    """Rows, and for each which of its tokens count, which leaves ranks unequally many labels."""
    rng = np.random.default_rng(seed)
    found = [(rng.zipf(1.3, length) % 300).tolist() for length in rng.integers(0, 60, num_rows)]
    return found, [rng.integers(0, 2, len(row)).tolist() for row in found]


def write(path: Path, format: str, seed: int, num_rows: int) -> str:
    tokens, masks = rows(seed, num_rows)
    write_corpus(path, tokens, format=format, shard_bytes=2000, vocab_size=300, loss_mask=("uint8[]", masks))
    return str(path)


def write_settings(folder: Path, kind: str, formats: tuple[str, str]) -> Path:
    """Settings of an epoch of 20 steps, with a ramp of the global batch at step 14, and what they read."""
    order = {"global_batch_size": 12, "seed": 3, "block_samples": 8}
    if kind == "corpus":
        data = {"path": write(folder / "a", formats[0], 1, 300)}
    else:
        paths = [
            write(folder / name, format, seed, 100) for name, format, seed in zip("ab", formats, (1, 2), strict=True)
        ]
        data = {"sources": [{"path": path, "weight": weight} for path, weight in zip(paths, (0.7, 0.3), strict=True)]}
        order["epoch_samples"] = 288
    settings = {
        "data": {**data, "sample": {"seq_len": 32, "mode": "concat"}},
        "order": {**order, "segments": [{"from_step": 14, "global_batch_size": 24}]},
        "loader": {"micro_batch_size": 1},
    }
    path = folder / "train.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def start(
    settings: Path, checkpoints: Path, num_ranks: int, script: str = "examples/train.py"
) -> subprocess.Popen[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    if num_ranks == 1:
        launch = []
    options = ["--steps", str(NUM_STEPS), "--checkpoint", str(checkpoints), "--checkpoint-every", str(SAVE_EVERY)]
    return subprocess.Popen(
        [sys.executable, *launch, script, "--config", str(settings), *options],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def train(settings: Path, checkpoints: Path, num_ranks: int) -> Printed:
    """Run it to its end."""
    run = start(settings, checkpoints, num_ranks)
    out, err = run.communicate(timeout=250)
    assert run.returncode == 0, err
    return Printed.of(out)


def children(pid: int) -> list[int]:
    """A process's descendants, whatever their process groups: torchrun gives each rank one of its own."""
    direct = [int(p) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for p in tasks.read_text().split()]
    return [found for child in direct for found in (child, *children(child))]


def kill_when(line: str, run: subprocess.Popen[str], times: int = 1) -> tuple[Printed, list[int]]:
    """Kill the launcher and all ranks when they have printed so many lines that begin so; return what they printed."""
    assert run.stdout is not None
    lines = []
    for printed in run.stdout:
        lines.append(printed)
        times -= printed.startswith(line)
        if not times:
            break
    else:
        raise AssertionError(f"it ended before {line!r}: {run.communicate()[1]}")
    killed = [run.pid, *children(run.pid)]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    lines.append(run.communicate(timeout=200)[0])
    return Printed.of("".join(lines)), killed


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ours_in_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "tokenyard" in name}


@pytest.fixture(autouse=True)
def _nothing_is_left_in_memory() -> Iterator[None]:
    before = ours_in_memory()
    yield
    assert ours_in_memory() == before


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Printed]:
    """The kind, its settings, and what two ranks print that nobody stops."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = write_settings(folder, request.param, ("npy", "mds"))
    printed = train(settings, folder / "whole", 2)
    assert printed.steps == list(range(1, NUM_STEPS + 1))
    return request.param, settings, printed


@pytest.fixture(scope="module")
def killed(whole: tuple[str, Path, Printed]) -> Path:
    """The checkpoints of two ranks that were killed: a corpus's somewhere in an epoch, a mixture's in a checkpoint."""
    kind, settings, expected = whole
    checkpoints = settings.parent / "killed"
    if kind == "corpus":
        moment = int(np.random.default_rng(7).integers(SAVE_EVERY, NUM_STEPS // 2))
        printed = check_killed(settings, checkpoints, f"step {moment} ", "examples/train.py")
        assert moment <= printed.steps[-1] < NUM_STEPS
    else:
        script = settings.parent / "stops_in_checkpoint.py"
        script.write_text(STOPS_IN_CHECKPOINT)
        printed = check_killed(settings, checkpoints, "half written", str(script))
        assert printed.steps[-1] == 2 * SAVE_EVERY
        assert sorted(path.name[-5:] for path in checkpoints.iterdir()) == ["04.pt", "8.tmp"]
    assert printed.losses.items() <= expected.losses.items()
    return checkpoints


def check_killed(settings: Path, checkpoints: Path, line: str, script: str) -> Printed:
    printed, processes = kill_when(line, start(settings, checkpoints, 2, script))
    assert len(processes) >= 3
    deadline = time.monotonic() + 60
    while any(map(is_alive, processes)):
        assert time.monotonic() < deadline, "killed processes live on"
        time.sleep(0.01)
    return printed


def check_resumed(settings: Path, killed: Path, expected: Printed, num_ranks: int, copy: Path) -> None:
    """Go on from a copy of the checkpoints, and compare with the run that nobody stopped."""
    shutil.copytree(killed, copy)
    first = 1 + max(int(path.stem.removeprefix("step-")) for path in copy.glob("step-*.pt"))
    found = train(settings, copy, num_ranks)
    assert found.steps == list(range(first, NUM_STEPS + 1))
    assert found.samples == {step: expected.samples[step] for step in found.steps}
    assert found.batches == expected.batches
    if num_ranks == 2:
        assert found.losses == {step: expected.losses[step] for step in found.steps}
    else:
        for step in found.steps:
            assert float(found.losses[step]) == pytest.approx(float(expected.losses[step]), rel=1e-4)
    assert [path.name[-5:] for path in sorted(copy.iterdir())] == ["20.pt", "24.pt"]


def test_two_ranks_that_were_killed_go_on_to_the_last_bit(whole, killed, tmp_path):
    _, settings, expected = whole
    check_resumed(settings, killed, expected, 2, tmp_path / "checkpoints")


def test_another_number_of_ranks_goes_on_in_another_format_with_the_same_samples(whole, killed, tmp_path):
    kind, _, expected = whole
    settings = write_settings(tmp_path, kind, ("parquet", "jsonl"))
    check_resumed(settings, killed, expected, {"corpus": 1, "mixture": 3}[kind], tmp_path / "checkpoints")


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 6])
def test_any_number_of_ranks_goes_on_in_any_format(whole, killed, tmp_path, num_ranks, format):
    kind, _, expected = whole
    settings = write_settings(tmp_path, kind, (format, format))
    check_resumed(settings, killed, expected, num_ranks, tmp_path / "checkpoints")


@pytest.mark.soak
def test_three_ranks_that_are_killed_again_and_again_lose_the_same_to_the_last_bit(whole, tmp_path):
    _, settings, _ = whole
    expected = train(settings, tmp_path / "whole", 3)
    seen = {}
    for times in (5, 1, 3):
        printed, _ = kill_when("step ", start(settings, tmp_path / "killed", 3), times)
        assert printed.losses.items() <= expected.losses.items()
        seen |= printed.losses
    last = train(settings, tmp_path / "killed", 3)
    assert seen | last.losses == expected.losses
    assert last.batches == expected.batches
