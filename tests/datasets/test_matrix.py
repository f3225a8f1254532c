"""One sequence of ids and tokens, whatever it is read from, and by however many ranks, threads and processes.

The sequence is that of the specification, read step by step, over the rows as they were written.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import pytest
from blake3 import blake3

from tests.corpora import FORMATS, random_rows, write_corpus
from tests.datasets.order.slow_plan import slow_run
from tokenyard.config import TrainConfig, load_config
from tokenyard.datasets.loader import TokenLoader
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.planning import make_batches, make_plan
from tokenyard.datasets.sampler import RankSampler

WORLD_SIZES = [1, 2, 3, 4, 6, 8]
SHUFFLES = ["none", "global", "block"]
KINDS = ["single", "mixture"]
READS = ["mmap", "pread"]
ENGINES: list[dict[str, int]] = [
    {"num_threads": 1},
    {"num_threads": 2},
    {"num_threads": 5},
    {"num_workers": 1},
    {"num_workers": 2},
    {"num_workers": 3},
]
GLOBAL_BATCH, SEQ_LEN, EPOCHS = 24, 4, 2
ROWS = [random_rows(seed=1, num_rows=60, longest=30), random_rows(seed=2, num_rows=40, longest=30)]

# Machines with fewer cores than workers are no reason to fail.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("corpora")
    for format in FORMATS:
        for name, rows in zip("ab", ROWS, strict=True):
            write_corpus(home / format / name, rows, format=format, shard_bytes=700)
    return home


def config(home, format, shuffle, kind, read="auto", **loader):
    order = {"seed": 5, "global_batch_size": GLOBAL_BATCH, "block_samples": 4, "shuffle": shuffle}
    data: dict[str, Any] = {"sample": {"seq_len": SEQ_LEN}}
    if kind == "mixture":
        weights = {"a": 0.3, "b": 0.7}
        data["sources"] = [{"path": str(home / format / n), "weight": w, "read": read} for n, w in weights.items()]
        order["epoch_samples"] = 5 * GLOBAL_BATCH + 7
    else:
        data |= {"path": str(home / format / "a"), "read": read}
        order["last_batch"] = "pad"
    return {"data": data, "order": order, "loader": {"num_threads": 0, **loader}}


@cache
def open_once(home, format, kind, read="auto"):
    """The dataset of a corpus or a mixture; which order it is read in is no affair of it."""
    return open_dataset(load_config(config(home, format, "block", kind, read)))


@cache
def digest_of_the_specification(home, shuffle, kind):
    """Of the source, the number and the tokens of every sample of two epochs."""
    settings = load_config(config(home, "npy", shuffle, kind))
    plan = make_plan(settings, open_once(home, "npy", kind))
    streams = [[token for row in rows for token in row] for rows in ROWS]
    hasher = blake3()
    for _, step in slow_run(list(plan.segments), plan.epoch_range(EPOCHS - 1)[1]):
        for source, _, sample, _ in step:
            tokens = streams[source or 0][sample * SEQ_LEN : (sample + 1) * SEQ_LEN]
            hasher.update(json.dumps([source or 0, sample, tokens]).encode())
    return hasher.hexdigest()


def rank_steps(loader):
    """The samples of each step of two epochs of a rank."""
    return [[sample for batch in step for sample in samples(batch)] for _ in range(EPOCHS) for step in loader.steps()]


def samples(batch):
    ids = batch["sample_ids"].tolist()
    return list(zip(batch["source_ids"].tolist() if "source_ids" in batch else [0] * len(ids), ids,
                    batch["input_ids"].tolist(), strict=True))  # fmt: skip


def digest(ranks: Sequence[list[list[Any]]]) -> str:
    """Of what all ranks read: step by step, the ranks in their order."""
    hasher = blake3()
    for parts in zip(*ranks, strict=True):
        for sample in (sample for part in parts for sample in part):
            hasher.update(json.dumps(list(sample)).encode())
    return hasher.hexdigest()


def digest_in_one_process(home, format, world_size, engine, shuffle, kind, read="auto", micro=None):
    settings: TrainConfig = load_config(config(home, format, shuffle, kind, read, micro_batch_size=micro, **engine))
    dataset = open_once(home, format, kind, read)
    loaders = (
        TokenLoader(dataset, RankSampler(make_batches(settings, dataset, rank, world_size)), settings.loader)
        for rank in range(world_size)
    )
    return digest([rank_steps(loader) for loader in loaders])


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_gives_the_sequence_at_every_world_size(home, format, shuffle, kind):
    expected = digest_of_the_specification(home, shuffle, kind)
    for world_size, micro in [(2, 3), *((size, None) for size in WORLD_SIZES)]:
        found = digest_in_one_process(home, format, world_size, {"num_threads": 0}, shuffle, kind, micro=micro)
        assert found == expected, f"{world_size} ranks, micro-batches of {micro}"


def all_pairs(*factors: Sequence[Any]) -> list[tuple[int, ...]]:
    """Few combinations of choices, by their numbers, in which each two choices of different factors meet."""
    everything = list(product(*(range(len(factor)) for factor in factors)))
    left = {pair for combination in everything for pair in pairs_of(combination)}
    table = []
    while left:
        best = max(everything, key=lambda combination: len(left & pairs_of(combination)))
        left -= pairs_of(best)
        table.append(best)
    return table


@cache
def pairs_of(combination: tuple[int, ...]) -> frozenset[Any]:
    return frozenset(combinations(enumerate(combination), 2))


FACTORS = (FORMATS, WORLD_SIZES, ENGINES, SHUFFLES, KINDS, READS)
PAIRS = [tuple(factor[i] for factor, i in zip(FACTORS, row, strict=True)) for row in all_pairs(*FACTORS)]


def test_the_table_lets_each_two_choices_meet():
    met = {pair for row in PAIRS for pair in combinations([(k, str(choice)) for k, choice in enumerate(row)], 2)}
    assert len(met) == sum(len(a) * len(b) for a, b in combinations(FACTORS, 2))
    assert len(PAIRS) < 50


@pytest.mark.parametrize(("format", "world_size", "engine", "shuffle", "kind", "read"), PAIRS, ids=str)
def test_threads_and_workers_give_the_sequence(home, format, world_size, engine, shuffle, kind, read):
    found = digest_in_one_process(home, format, world_size, engine, shuffle, kind, read)
    assert found == digest_of_the_specification(home, shuffle, kind)


@pytest.mark.soak
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("format", FORMATS)
def test_every_combination_gives_the_sequence(home, format, world_size, engine, shuffle, kind):
    found = digest_in_one_process(home, format, world_size, engine, shuffle, kind)
    assert found == digest_of_the_specification(home, shuffle, kind)


RANK = """
import json, sys
import torch.distributed as dist
import tokenyard
from tests.datasets.test_matrix import samples

dist.init_process_group("gloo")
config, state_path, num_steps = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
loader = tokenyard.build_dataloader(config)
assert (loader.rank, loader.world_size) == (dist.get_rank(), dist.get_world_size())
try:
    with open(state_path) as file:
        loader.load_state_dict(json.load(file))
except FileNotFoundError:
    pass
dist.barrier()
found = []
while len(found) < num_steps:
    for step in loader.steps():
        found.append([sample for batch in step for sample in samples(batch)])
        if len(found) == num_steps:
            break
gathered = [None] * loader.world_size
dist.all_gather_object(gathered, (found, loader.state_dict()))
if not loader.rank:
    assert all(state == gathered[0][1] for _, state in gathered)
    with open(state_path, "w") as file:
        json.dump(gathered[0][1], file)
    print(json.dumps([found for found, _ in gathered]))
dist.destroy_process_group()
"""


def test_real_ranks_give_the_sequence_and_go_on_at_another_number_of_them(home, tmp_path):
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    settings = json.dumps(config(home, "parquet", "block", "mixture", num_threads=2))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    steps: list[list[Any]] = []
    for world_size, num_steps in ((2, 3), (3, 7)):  # of 10 steps; an epoch ends after 5
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}",
                   str(program), settings, str(tmp_path / "state.json"), str(num_steps)]  # fmt: skip
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        ranks = json.loads(done.stdout.splitlines()[-1])
        assert len(ranks) == world_size
        assert {len(step) for rank in ranks for step in rank} == {GLOBAL_BATCH // world_size}
        steps += [[sample for part in parts for sample in part] for parts in zip(*ranks, strict=True)]
    assert digest([steps]) == digest_of_the_specification(home, "block", "mixture")
