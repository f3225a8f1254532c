"""Recipes run as users run them, and what they must have trained on: computed from the order, without a loader."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.corpora import write_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order import place, resolve, walk

ROOT = Path(__file__).parent.parent.parent
SEQ_LEN, GLOBAL_BATCH, MICRO_BATCH = 16, 8, 2
ORDER = {"seed": 3, "block_samples": 4}


class Run:
    """A corpus with settings for it, and recipes that train on it.

    There are 45 samples: 5 steps in an epoch, and 5 samples too many.
    """

    def __init__(self, folder, labels):
        tokens = np.random.default_rng(5).integers(0, 300, 45 * SEQ_LEN + 1).tolist()
        write_corpus(folder / "c", [tokens[:100], tokens[100:]], vocab_size=300)
        self.folder = folder
        self.dataset = TokenDataset(folder / "c", SEQ_LEN, labels=labels)
        self.config = folder / f"{labels}.yaml"
        self.config.write_text(
            f"data: {{path: {folder / 'c'}, sample: {{seq_len: {SEQ_LEN}, labels: {labels}}}}}\n"
            f"order: {{global_batch_size: {GLOBAL_BATCH}, seed: {ORDER['seed']}, "
            f"block_samples: {ORDER['block_samples']}}}\n"
            f"loader: {{micro_batch_size: {MICRO_BATCH}}}\n"
        )

    def expected(self, first, stop):
        """The samples of each global batch, in the order of slots."""
        size = len(self.dataset)
        assert size == 45
        order = resolve(num_samples=size, global_batch_size=GLOBAL_BATCH, **ORDER)
        assert order.lanes > 1
        found = []
        for step in range(first, stop):
            epoch, within = divmod(step, size // GLOBAL_BATCH)
            positions = walk(size, GLOBAL_BATCH, order.lanes, within, np.arange(GLOBAL_BATCH))
            found.append(place(order, size, epoch, positions).tolist())
        return found

    def pad(self, labels, micro_batch=MICRO_BATCH):
        """Take in place of the corpus one of 11 rows of different lengths, the last global batch of which is padded.

        Of two ranks, the second one has padding alone there.
        """
        rng = np.random.default_rng(6)
        path = self.folder / f"rows-{micro_batch}"
        write_corpus(path, [rng.integers(0, 300, n).tolist() for n in range(3, 14)], vocab_size=300)
        self.config.write_text(
            f"data: {{path: {path}, sample: {{mode: rows, seq_len: 13, labels: {labels}}}}}\n"
            f"order: {{global_batch_size: {GLOBAL_BATCH}, shuffle: none, last_batch: pad}}\n"
            f"loader: {{micro_batch_size: {micro_batch}}}\n"
        )

    def train(self, recipe, *arguments, num_ranks=2):
        """Run a recipe, and return what the model of each rank was given and said: [rank][micro-batch]."""
        launch(num_ranks, ROOT / "tests/trainers/observe.py", self.folder, ROOT / "examples/trainers" / recipe,
               "--config", self.config, *arguments, cwd=self.folder)  # fmt: skip
        ranks = [json.loads((self.folder / f"rank-{rank}.json").read_text()) for rank in range(num_ranks)]
        assert all(rank["weights"] == ranks[0]["weights"] for rank in ranks), "each rank trains on its own"
        return [rank["calls"] for rank in ranks]

    def global_batches(self, calls):
        """From what ranks were given to the samples of each global batch."""
        known = {tuple(sample["input_ids"].tolist()): int(sample["sample_ids"]) for sample in self.dataset}
        micro_batches = [[[known[tuple(row)] for row in call["input_ids"]] for call in rank] for rank in calls]
        each = GLOBAL_BATCH // len(calls) // MICRO_BATCH
        steps = len(micro_batches[0]) // each
        return [
            [sample for rank in micro_batches for batch in rank[step * each : (step + 1) * each] for sample in batch]
            for step in range(steps)
        ]


def launch(num_ranks, script, *arguments, cwd=None):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [*command, script, *map(str, arguments)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
