"""The example that readers copy: two ranks, any format, the same losses to the last bit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.corpora import FORMATS, write_corpus

ROOT = Path(__file__).parent.parent
NUM_STEPS = 6


def write(path, format):
    rng = np.random.default_rng(5)
    rows = [(rng.zipf(1.3, length) % 300).tolist() for length in rng.integers(0, 60, 100)]
    masks = [rng.integers(0, 2, len(row)).tolist() for row in rows]
    write_corpus(path, rows, format=format, shard_bytes=2000, vocab_size=300, loss_mask=("uint8[]", masks))


def train(tmp_path, path, num_ranks):
    settings = tmp_path / "train.yaml"
    settings.write_text(
        f"data: {{path: {path}, sample: {{seq_len: 32, mask_boundaries: true}}}}\n"
        "order: {global_batch_size: 8, seed: 3, block_samples: 8}\nloader: {micro_batch_size: 2}\n"
    )
    launch = (
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)] if num_ranks > 1 else []
    )
    command = [sys.executable, *launch, "examples/train.py", "--config", settings, "--steps", str(NUM_STEPS)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    losses = re.findall(r"^step (\d+) loss (\S+) samples [0-9a-f]{64}$", done.stdout, re.MULTILINE)
    assert [int(step) for step, _ in losses] == list(range(1, NUM_STEPS + 1))
    (digest,) = re.findall(r"^batches ([0-9a-f]{64})$", done.stdout, re.MULTILINE)
    return [loss for _, loss in losses], digest


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    write(folder / "c", "npy")
    return train(folder, folder / "c", 2)


@pytest.mark.parametrize("format", FORMATS)
def test_two_ranks_lose_the_same_to_the_last_bit_in_every_format(tmp_path, two_ranks, format):
    write(tmp_path / "c", format)
    losses, digest = train(tmp_path, tmp_path / "c", 2)
    assert (losses, digest) == two_ranks
    assert float(losses[-1]) < float(losses[0])


def test_one_rank_sees_the_global_batches_that_two_see(tmp_path, two_ranks):
    write(tmp_path / "c", "npy")
    assert train(tmp_path, tmp_path / "c", 1)[1] == two_ranks[1]
