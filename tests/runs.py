"""Runs that tests describe by settings: of one corpus or a mixture, in several formats, with changes on their way."""

from pathlib import Path

import numpy as np

from tests.corpora import random_rows, write_corpus
from tokenyard.config import load_config
from tokenyard.datasets.loader import TokenLoader
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.sampler import RankSampler
from tokenyard.manifest import Layout

ROWS = {"web": random_rows(seed=1, num_rows=90, longest=30), "code": random_rows(seed=2, num_rows=40, longest=20)}


def write_corpora(home: Path, format: str = "npy") -> Path:
    """Documents of two sources, in several shards each."""
    for name, rows in ROWS.items():
        write_corpus(home / name, rows, format=format, shard_bytes=700)
    return home


def packed_rows(path: Path, format: str, pad: bool):
    """Rows of 12 tokens, whose documents fill them or leave padding."""
    rng = np.random.default_rng(3)
    rows, lengths = [], []
    for _ in range(40):
        of_row = rng.integers(0, 6, rng.integers(1, 4)).tolist()
        rows.append([*rng.integers(1, 1000, sum(of_row)).tolist(), *[0] * (12 - sum(of_row))][:12])
        lengths.append(of_row if sum(of_row) <= 12 else [12])
    layout = Layout(kind="packed", seq_len=12, lengths_field="document_lengths", pad_token_id=0 if pad else None)
    return write_corpus(
        path, rows, format=format, layout=layout, shard_bytes=300, document_lengths=("uint32[]", lengths)
    )


def settings(home, *, mixture=False, sample=None, order=None, weights=(0.7, 0.3), code=None, **loader):
    if mixture:
        data = {
            "sources": [
                {"path": str(home / "web"), "weight": weights[0]},
                {"path": str(home / "code"), "weight": weights[1], **(code or {})},
            ]
        }
    else:
        data = {"path": str(home / "web")}
    if "token_budget" in (order or {}):
        order, loader = {"global_batch_size": None, **order}, {**loader, "micro_batch_size": None}
    return load_config(
        {
            "data": {**data, "sample": {"seq_len": 8, **(sample or {})}},
            "order": {"seed": 7, "global_batch_size": 8, "block_samples": 4, **(order or {})},
            "loader": {"num_threads": 0, **loader},
        }
    )


def open_run(config, world_size=1):
    """The batches of the first rank, and the dataset."""
    dataset = open_dataset(config)
    return make_batches(config, dataset, 0, world_size), dataset


def loaders(config, world_size=1):
    dataset = open_dataset(config)
    ranks = [make_batches(config, dataset, rank, world_size) for rank in range(world_size)]
    return [TokenLoader(dataset, RankSampler(batches), config.loader) for batches in ranks]


RAMP = [{"from_step": 3, "global_batch_size": 16}, {"from_step": 6, "global_batch_size": 4}]
WEIGHTS = [{"from_step": 5, "weights": {"web": 0.2, "code": 0.8}}, {"from_step": 9, "global_batch_size": 16}]
OF_ROWS = {"mode": "rows", "seq_len": None}
BUDGET = {"token_budget": {"tokens": 48, "micro_batches": 4}}
LONGER = [{"from_step": 4, "seq_len": 16, "global_batch_size": 4}]

#: Runs that every question is asked of, by name: keyword arguments of `settings`.
RUNS = {
    "windows": {},
    "padded": {"order": {"last_batch": "pad", "global_batch_size": 16}},
    "rows": {"sample": OF_ROWS},
    "ramp": {"order": {"segments": RAMP}},
    "longer": {"order": {"segments": LONGER, "unit_tokens": 16}},
    "mixture": {"mixture": True, "order": {"epoch_samples": 80}},
    "mixture of rows": {"mixture": True, "sample": OF_ROWS, "order": {"epoch_samples": 80}},
    "weights": {"mixture": True, "order": {"epoch_samples": 160, "segments": WEIGHTS}},
    "ending": {"mixture": True, "code": {"at_end": "stop", "max_epochs": 2}, "order": {"epoch_samples": 160}},
    "grouped": {"sample": OF_ROWS, "order": {"length_grouping": {"steps": 4}, "last_batch": "pad"}},
    "grouped mixture": {
        "mixture": True,
        "sample": OF_ROWS,
        "order": {"epoch_samples": 80, "length_grouping": {"steps": 4}},
    },
    "budget": {"sample": OF_ROWS, "order": BUDGET},
    "padded budget": {"sample": OF_ROWS, "order": {**BUDGET, "last_batch": "pad"}},
    "budget mixture": {"mixture": True, "sample": OF_ROWS, "order": {**BUDGET, "epoch_samples": 80}},
    "ending budget": {
        "mixture": True,
        "sample": OF_ROWS,
        "code": {"at_end": "stop", "max_epochs": 2},
        "order": {**BUDGET, "epoch_samples": 160},
    },
}
