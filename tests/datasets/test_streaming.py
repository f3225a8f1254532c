"""Training from a URL through a cache: the same batches, little more than the corpus fetched, bounded on disk."""

import gc
import json
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tokenyard
from tests.cache_bytes import bytes_on_disk
from tests.corpora import write_corpus
from tests.servers.files import FileServer, file_server
from tokenyard.config import load_config
from tokenyard.corpus import CorpusWriter, open_corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.environment import ranks_of_node
from tokenyard.datasets.loader import TokenLoader, build_dataloader
from tokenyard.datasets.order.segment import Source
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.streaming.smallest import open_blocks
from tokenyard.datasets.streaming.tiles import Tiles, tile_size
from tokenyard.datasets.streaming.uses import NodeRank, TileUses
from tokenyard.errors import ConfigError, DataError, StorageError
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema
from tokenyard.storage import Bucket, Folder
from tokenyard.storage.cache import NEVER, CachedFile, DiskCache, FolderCache, Ranks
from tokenyard.storage.objects import open_objects

SPAWN = multiprocessing.get_context("spawn")
ROW, ROWS, BLOCK = 512, 10_240, 256


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order blocks of these tests have 256 KiB, a sixteenth of those by default; so have cells and ranges."""
    cell, read = 1 << 12, 1 << 13
    monkeypatch.setattr("tokenyard.storage.cells.CELL_BYTES", cell)
    monkeypatch.setattr("tokenyard.datasets.streaming.smallest.CELL_BYTES", cell)
    monkeypatch.setattr("tokenyard.datasets.streaming.smallest.RANGE_BYTES", read)
    monkeypatch.setattr(CachedFile, "range_bytes", read)
    monkeypatch.setattr(FolderCache, "range_bytes", read)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 MiB of rows of one length, in shards that order blocks don't end with."""
    return _written(tmp_path_factory.mktemp("packed"), shortest=ROW)


@pytest.fixture(scope="module")
def ragged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of rows of many lengths."""
    return _written(tmp_path_factory.mktemp("ragged"), shortest=1)


def _written(home: Path, shortest: int) -> Path:
    rng = np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenyard.storage.cells.CELL_BYTES", 1 << 12)
        patch.setattr("tokenyard.corpus.writer.BLOCK_ROWS", 1)  # shards end at any row
        for format in ("npy", "mds"):
            with CorpusWriter(
                home / format, format=format, schema=Schema(token_dtype="uint16"), shard_bytes=1_500_000
            ) as w:
                for length in rng.integers(shortest, ROW + 1, ROWS).tolist():
                    w.write(rng.integers(0, 1 << 16, length, np.uint16))
    return home


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 MiB of rows: five order blocks of the size by default, for processes that know nothing of smaller cells."""
    home = tmp_path_factory.mktemp("large")
    rows = np.random.default_rng(1).integers(0, 1 << 16, (2 * ROWS, ROW), np.uint16)
    with CorpusWriter(
        home / "npy", format="npy", schema=Schema(token_dtype="uint16"), shard_bytes=rows.nbytes // 4
    ) as w:
        for row in rows:
            w.write(row)
    return home


@pytest.fixture
def served(packed: Path) -> Iterator[FileServer]:
    with file_server(packed) as server:
        yield server


def settings(path: str, *, cache: Path | None = None, cache_bytes: int = 0, **other: Any) -> dict[str, Any]:
    loader = {"num_threads": 2, **other.pop("loader", {})}
    if cache is not None:
        loader["cache"] = {"path": str(cache), "bytes": cache_bytes}
    order = {"global_batch_size": 16, "block_samples": BLOCK, "lanes": 1, "window_blocks": 1, "seed": 3}
    sample = {"mode": "rows", **other.pop("sample", {})}
    return {
        "data": {"path": path, "sample": sample},
        "order": order | other.pop("order", {}),
        "loader": loader,
    } | other


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def size_of(corpus: Path) -> int:
    return sum(shard.num_bytes for shard in open_corpus(corpus).manifest.shards)


FORMATS = {
    "npy": {},
    "mds": {},
    "mds-zstd": {"compression": "zstd"},
    "webdataset": {},
    "webdataset-gz": {"compression": "gz"},
    "parquet": {},
    "jsonl": {},
    "csv": {},
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("mode", ["rows", "concat"])
def test_batches_from_s3_are_those_of_the_same_corpus_on_disk(
    tmp_path: Path, bucket: str, kind: str, mode: str
) -> None:
    rng = np.random.default_rng(0)
    local, objects = tmp_path / "corpus", open_objects(bucket)
    schema = Schema(token_dtype="uint16", fields={"loss_mask": "uint8[]"})
    with CorpusWriter(
        local, format=kind.partition("-")[0], schema=schema, shard_bytes=40_000, **FORMATS[kind]
    ) as writer:
        for _ in range(800):
            length = int(rng.integers(1, 150))
            writer.write(rng.integers(0, 1 << 16, length, np.uint16), loss_mask=rng.integers(0, 2, length))
    for path in sorted(p for p in local.rglob("*") if p.is_file()):
        objects.put(path.relative_to(local).as_posix(), path.read_bytes())
    sample = {"mode": mode, "seq_len": None if mode == "rows" else 64, "boundaries": True}
    order = {"block_samples": 50, "lanes": 1, "window_blocks": 1}
    near = build_dataloader(settings(str(local), sample=sample, order=order), 0, 1)
    far = build_dataloader(
        settings(bucket, sample=sample, order=order, cache=tmp_path / "cache", cache_bytes=1 << 20), 0, 1
    )
    for _ in range(2):
        taken = 0
        for one, other in zip(near, far, strict=True):
            assert same(one, other)
            taken += 1
        assert taken == len(near)
    assert far.cache_counts is not None
    assert far.cache_counts.hits
    assert far.cache_counts.evicted_late == 0


@pytest.mark.parametrize("format", ["npy", "mds"])
def test_a_tenth_of_the_corpus_is_enough_and_each_epoch_fetches_it_once(
    tmp_path: Path, packed: Path, served: FileServer, format: str
) -> None:
    total = size_of(packed / format)
    far = build_dataloader(
        settings(f"{served.url}/{format}", cache=tmp_path, cache_bytes=total // 10, loader={"cache_bytes": 0}), 0, 1
    )
    near = build_dataloader(settings(str(packed / format)), 0, 1)
    for _ in range(2):
        begin = served.num_bytes
        for number, (one, other) in enumerate(zip(near, far, strict=True)):
            assert same(one, other)
            if number % 40 == 0:
                assert bytes_on_disk(tmp_path) <= total // 10
        assert served.num_bytes - begin <= 1.1 * total
    counts = far.cache_counts
    assert counts is not None
    assert counts.bytes_fetched <= served.num_bytes
    assert counts.requests <= len(served.given)


def _train(settings: dict[str, Any], rank: int, steps: Any, result: Any, together: Any) -> None:
    loader = build_dataloader(settings, rank, 2)
    ids = []
    for batch in loader:
        together.wait(200)  # as in a collective; else a rank that is far behind finds what it needs evicted
        ids.append(batch["sample_ids"].tolist())
        steps.put((rank, int(batch["input_ids"].sum())))
    result.put((rank, ids))


@pytest.mark.alone  # ranks that don't go in step, as beside other tests, may evict what the other one needs
def test_two_ranks_with_two_workers_each_share_a_cache(tmp_path: Path, large: Path) -> None:
    total = size_of(large / "npy")
    with file_server(large) as served:
        _train_on_two_ranks(tmp_path, large, served, total)
    # The middle one of five order blocks is used by both ranks, first and last, and stays in between; what is fetched
    # beyond that lies at both ends of order blocks.
    assert served.num_bytes <= 1.1 * total


def _train_on_two_ranks(tmp_path: Path, large: Path, served: FileServer, total: int) -> None:
    config = settings(
        f"{served.url}/npy",
        cache=tmp_path,
        cache_bytes=int(0.9 * total),
        order={"block_samples": 4096, "lanes": 2, "global_batch_size": 64},
        loader={"num_workers": 2, "micro_batch_size": 8},
    )
    steps, result, together = SPAWN.Queue(), SPAWN.Queue(), SPAWN.Barrier(2)
    processes = [SPAWN.Process(target=_train, args=(config, rank, steps, result, together)) for rank in range(2)]
    for process in processes:
        process.start()
    del config["loader"]["cache"]
    config["data"]["path"] = str(large / "npy")
    for rank, loader in enumerate([build_dataloader(config, rank, 2) for rank in range(2)]):
        expected = [batch["sample_ids"].tolist() for batch in loader]
        config[f"ids {rank}"] = expected
    sums = 0
    for _ in range(sum(len(config[f"ids {rank}"]) for rank in range(2))):
        sums += steps.get(timeout=240)[1]
        if sums % 16 == 0:
            assert bytes_on_disk(tmp_path) <= int(0.9 * total)
    found = dict(result.get(timeout=240) for _ in range(2))
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert [found[rank] for rank in range(2)] == [config[f"ids {rank}"] for rank in range(2)]
    tokens = open_corpus(large / "npy").gather_rows(np.arange(2 * ROWS))[0].astype(np.int64)
    taken = np.concatenate([np.concatenate(found[rank]) for rank in range(2)])
    assert sums == int(tokens.reshape(2 * ROWS, ROW)[taken].sum())


def test_a_rank_that_is_held_does_not_keep_another_one_from_going_on(
    tmp_path: Path, packed: Path, served: FileServer
) -> None:
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=size_of(packed / "npy") // 2, order={"lanes": 2})
    held, ahead = [build_dataloader(config, rank, 2) for rank in range(2)]
    left = iter(held)
    assert len(next(left)["sample_ids"]) == 8
    assert sum(len(batch["sample_ids"]) for _ in range(2) for batch in ahead) == ROWS
    assert len(next(left)["sample_ids"]) == 8


def test_what_an_epoch_wanted_that_was_left_holds_nobody_up(tmp_path: Path, packed: Path, served: FileServer) -> None:
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=size_of(packed / "npy") // 2)
    loader = build_dataloader(config, 0, 1)
    held = iter(loader)
    next(held)
    (rank,) = Ranks(tmp_path).living()
    assert 0 < rank.wants < NEVER
    run = loader.sampler.begin()
    assert loader._stream is not None
    assert list(loader._stream.fetched(run, iter(())).run()) == []
    (rank,) = Ranks(tmp_path).living()
    assert rank.wants == NEVER
    del held


MIXED = {"sources": [{"path": "FAR/npy", "weight": 3}, {"path": "FAR/mds", "weight": 1}]}
#: What else an order may be, and the data that it is of.
ORDERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mixture": (MIXED, {"epoch_samples": 4096}),
    "one source on a disk": (
        {"sources": [{"path": "FAR/npy", "weight": 1}, {"path": "NEAR/mds", "weight": 1}]},
        {"epoch_samples": 4096},
    ),
    "token budget": ({"path": "FAR/npy"}, {"token_budget": {"tokens": 8 * ROW, "micro_batches": 4}}),
    "token budget of a mixture": (
        MIXED,
        {"token_budget": {"tokens": 8 * ROW, "micro_batches": 4}, "epoch_samples": 4096},
    ),
    "grouped by length": ({"path": "FAR/npy"}, {"length_grouping": {"steps": 8}}),
}


@pytest.mark.parametrize("kind", ORDERS)
def test_every_order_is_the_same_through_a_cache_that_two_ranks_share(tmp_path: Path, ragged: Path, kind: str) -> None:
    data, order = ORDERS[kind]

    def loaders(far: str, cache: Path | None) -> list[TokenLoader]:
        text = json.dumps(data).replace("FAR", far).replace("NEAR", str(ragged))
        config = settings("", cache=cache, cache_bytes=size_of(ragged / "npy"), order=order)
        config["data"] = json.loads(text) | {"sample": {"mode": "rows"}}
        if "token_budget" in order:
            del config["order"]["global_batch_size"]
        return [build_dataloader(config, rank, 2) for rank in range(2)]

    with file_server(ragged) as served:
        near, far = loaders(str(ragged), None), loaders(served.url, tmp_path)
        steps = 0
        for one, other in zip(zip(*near, strict=True), zip(*far, strict=True), strict=True):
            assert [same(a, b) for a, b in zip(one, other, strict=True)] == [True, True]
            steps += 1
        assert steps > 100
        for loader in far:
            counts = loader.cache_counts
            assert counts is not None
            assert counts.hits
            assert counts.evicted_late == 0


def test_a_loader_that_is_dropped_is_a_rank_no_more(tmp_path: Path, packed: Path, served: FileServer) -> None:
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=size_of(packed / "npy") // 2)
    gc.disable()  # what waits for its collector may wait for long
    try:
        loader = build_dataloader(config, 0, 1)
        batches = iter(loader)
        next(batches)
        assert len(Ranks(tmp_path).living()) == 1
        del loader, batches
        assert Ranks(tmp_path).living() == []
    finally:
        gc.enable()


def test_a_rank_whose_file_somebody_removes_goes_on(tmp_path: Path, packed: Path, served: FileServer) -> None:
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=size_of(packed / "npy") // 2)
    batches = iter(build_dataloader(config, 0, 1))
    next(batches)
    for path in (tmp_path / "ranks").iterdir():
        path.unlink()
    assert sum(len(batch["sample_ids"]) for batch in batches) == ROWS - 16


def test_a_corpus_that_fits_is_fetched_once_and_stays(tmp_path: Path, packed: Path, served: FileServer) -> None:
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=2 * size_of(packed / "npy"))
    for _ in range(2):  # a second run finds what the first has left
        far = build_dataloader(config, 0, 1)
        for _ in range(2):
            assert sum(len(batch["sample_ids"]) for batch in far) == ROWS
    assert served.num_bytes <= 1.1 * size_of(packed / "npy")


def test_a_run_goes_on_in_the_middle_of_an_epoch_with_what_is_left(
    tmp_path: Path, packed: Path, served: FileServer
) -> None:
    total = size_of(packed / "npy")
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=total // 10)
    first = build_dataloader(config, 0, 1)
    batches = iter(first)
    for _ in range(300):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    batches.close()  # type: ignore[attr-defined]
    del first, batches
    begin = served.num_bytes
    second, near = build_dataloader(config, 0, 1), build_dataloader(settings(str(packed / "npy")), 0, 1)
    for loader in (second, near):
        loader.load_state_dict(state)
    rest = [same(one, other) for one, other in zip(near, second, strict=True)]
    assert rest == [True] * (ROWS // 16 - 300)
    assert served.num_bytes - begin <= 1.2 * total * len(rest) / (ROWS // 16)


def test_too_small_a_cache_is_refused_with_the_figure(tmp_path: Path, packed: Path, served: FileServer) -> None:
    def build(cache_bytes: int, **order: Any) -> TokenLoader:
        return build_dataloader(
            settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=cache_bytes, order=order), 0, 1
        )

    with pytest.raises(ConfigError, match=r"too few for 1 rank of this node: the smallest cache .* has") as refused:
        build(500_000)
    figure = int(str(refused.value).partition("works with has ")[2].partition(" bytes")[0])
    with pytest.raises(ConfigError, match=f"smallest cache that this run works with has {figure} bytes"):
        build(figure - 1)
    assert next(iter(build(figure)))["input_ids"].shape == (16, ROW)
    whole = size_of(packed / "npy")
    with pytest.raises(ConfigError, match=r"shuffle: global draws each sample from anywhere, so all of it") as refused:
        build(whole, shuffle="global")
    assert int(str(refused.value).partition("works with has ")[2].partition(" bytes")[0]) > whole


def test_row_groups_of_order_blocks_come_once_through_the_smallest_cache(tmp_path: Path) -> None:
    """Shards end with whole order blocks, whose row groups no other one needs: half the cache does."""
    rows = np.random.default_rng(1).integers(0, 1 << 16, (ROWS, ROW), np.uint16)
    schema = Schema(token_dtype="uint16")
    figures = {}
    for name, block_rows in (("any", 1), ("whole", 1024)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tokenyard.corpus.writer.BLOCK_ROWS", block_rows)
            options = {"row_group_rows": BLOCK, "compression": "none", "shard_bytes": 1_500_000}
            with CorpusWriter(tmp_path / name, format="parquet", schema=schema, **options) as w:
                w.write_batch(RowBatch.from_rows(list(rows), schema))
    with file_server(tmp_path) as server:
        for name in ("any", "whole"):
            with pytest.raises(ConfigError, match="smallest cache") as refused:
                build_dataloader(settings(f"{server.url}/{name}", cache=tmp_path / "none", cache_bytes=1), 0, 1)
            figures[name] = int(str(refused.value).partition("works with has ")[2].partition(" bytes")[0])
        assert figures["whole"] < 0.6 * figures["any"]
        config = settings(f"{server.url}/whole", cache=tmp_path / "cache", cache_bytes=figures["whole"])
        loader, near = build_dataloader(config, 0, 1), build_dataloader(settings(str(tmp_path / "whole")), 0, 1)
        begin = server.num_bytes
        assert [same(one, other) for one, other in zip(near, loader, strict=True)] == [True] * (ROWS // 16)
        assert server.num_bytes - begin <= 1.1 * size_of(tmp_path / "whole")


def test_a_cache_for_a_corpus_on_a_disk_is_refused(tmp_path: Path, packed: Path) -> None:
    with pytest.raises(ConfigError, match=r"loader.cache keeps what comes from URLs, but .*npy is on a disk"):
        build_dataloader(settings(str(packed / "npy"), cache=tmp_path, cache_bytes=1 << 20), 0, 1)


def test_without_a_path_the_cache_lies_in_the_users(
    tmp_path: Path, served: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path))
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=1 << 21)
    del config["loader"]["cache"]["path"]
    next(iter(build_dataloader(config, 0, 1)))
    assert bytes_on_disk(tmp_path / "streaming")
    monkeypatch.delenv("TOKENYARD_CACHE")
    monkeypatch.setattr(Path, "expanduser", lambda path: (_ for _ in ()).throw(RuntimeError(path)))
    with pytest.raises(ConfigError, match=r"loader.cache.path: there is no home folder to keep a cache in"):
        build_dataloader(config, 0, 1)


def test_a_shard_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", [[i] * 50 for i in range(200)], shard_bytes=4000)
    (tmp_path / "corpus" / "shard-00002.npy").unlink()
    with file_server(tmp_path) as server:
        config = settings(
            f"{server.url}/corpus", cache=tmp_path / "cache", cache_bytes=1 << 20, order={"block_samples": 10}
        )
        with pytest.raises(StorageError, match=r"shard-00002.npy.*no such object"):
            list(build_dataloader(config, 0, 1))


def test_a_damaged_shard_is_an_error_that_names_its_bytes_and_one_bad_answer_is_none(
    tmp_path: Path, served: FileServer
) -> None:
    left = [1]

    def change(name: str, start: int, data: bytes) -> bytes:
        if not name.endswith("shard-00001.npy") or len(data) < 5000 or not left[0]:
            return data
        left[0] -= 1
        return data[:4500] + bytes([data[4500] ^ 1]) + data[4501:]

    served.changed = change
    far = build_dataloader(settings(f"{served.url}/npy", cache=tmp_path / "1", cache_bytes=1 << 21), 0, 1)
    assert sum(len(batch["sample_ids"]) for batch in far) == ROWS
    assert far.cache_counts is not None
    assert far.cache_counts.refetched == 1
    left[0] = 1 << 30
    far = build_dataloader(settings(f"{served.url}/npy", cache=tmp_path / "2", cache_bytes=1 << 21), 0, 1)
    with pytest.raises(DataError, match=r"shard-00001.npy: bytes \d+ \.\. \d+ have another checksum than") as told:
        list(far)
    assert "while loading" in "".join(told.value.__notes__)


def _train_until_killed(config: dict[str, Any], rank: int, begun: Any) -> None:
    for batch in build_dataloader(config, rank, 8):
        begun.send(len(batch["sample_ids"]))


def test_eight_ranks_that_are_killed_and_started_again_find_nothing_in_the_way(
    tmp_path: Path, packed: Path, served: FileServer
) -> None:
    total = size_of(packed / "npy")
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=total, order={"lanes": 8})
    receiving, sending = SPAWN.Pipe(duplex=False)
    processes = [SPAWN.Process(target=_train_until_killed, args=(config, rank, sending)) for rank in range(8)]
    for process in processes:
        process.start()
    for _ in range(40):
        assert receiving.poll(240)
        receiving.recv()
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
    assert bytes_on_disk(tmp_path) <= total
    far = build_dataloader(config, 0, 8)
    assert not list((tmp_path / "pieces").rglob(".*"))
    near = build_dataloader(settings(str(packed / "npy"), order={"lanes": 8}), 0, 8)
    assert all(same(one, other) for one, other in zip(near, far, strict=True))
    assert len(os.listdir(tmp_path / "ranks")) == 2
    assert bytes_on_disk(tmp_path) <= total


@pytest.mark.parametrize(
    "order",
    [
        {"shuffle": "block", "lanes": 4, "window_blocks": 2},
        {"shuffle": "block", "lanes": 1, "window_blocks": 8},
        {"shuffle": "none", "lanes": 1},
        {"segments": [{"from_step": 20, "global_batch_size": 32}], "lanes": 4},
    ],
)
def test_next_uses_are_those_that_going_through_all_steps_finds(
    tmp_path: Path, packed: Path, order: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(settings(str(packed / "npy"), order=order))
    corpus = open_corpus(packed / "npy")
    monkeypatch.setattr("tokenyard.datasets.streaming.uses._MAX_PIECE_SAMPLES", 1)
    folder = Folder(packed / "npy")
    folder.cache = FolderCache(DiskCache(tmp_path, 100), "any")
    corpus.folder = folder
    dataset = TokenDataset(corpus, mode="rows")
    everything = [make_batches(config, dataset, rank, 4) for rank in range(4)]
    tiles = Tiles(dataset, tile_size(dataset, everything[0].plan))
    uses = TileUses(everything[0], tiles, everything[0].first_id)
    stop = everything[0].epoch_range(1)[1]
    for step, ranks in ((0, (1,)), (10, (1, 2)), (30, (1, 2)), (stop // 2 + 3, (0, 3))):
        uses.look_ahead(tuple(NodeRank(rank, 4) for rank in ranks), step)
        expected = np.full(len(tiles), NEVER)
        end = everything[0].epoch_range(everything[0].epoch_of(step) + 1)[1]
        for at in reversed(range(step, end)):
            for rank in ranks:
                for micro_batch in everything[rank].of_steps(at, 1)[0]:
                    expected[micro_batch.sample_ids // BLOCK] = at
        assert uses.of_all().tolist() == expected.tolist()
        middle = (step + end) // 2
        after, over = np.full(len(tiles), NEVER), np.full(len(tiles), -1)
        for at in range(step, end):
            for rank in ranks:
                for micro_batch in everything[rank].of_steps(at, 1)[0]:
                    touched = micro_batch.sample_ids // BLOCK
                    if at < middle:
                        over[touched] = at + 1
                    else:
                        after[touched] = np.minimum(after[touched], at)
        assert uses.of_all(middle).tolist() == after.tolist()
        assert uses.last_of_all(middle).tolist() == over.tolist()


def test_as_many_order_blocks_are_open_as_the_bound_says_at_most(packed: Path) -> None:
    dataset = TokenDataset(packed / "npy", mode="rows")
    for order in ({"lanes": 4, "window_blocks": 2}, {"lanes": 1, "window_blocks": 8}, {"lanes": 2}):
        config = load_config(settings(str(packed / "npy"), order=order))
        batches = make_batches(config, dataset, 1, 2)
        segment = batches.plan.segments[0]
        source: Source = segment.sources[0]
        for steps_ahead in (1, 3):
            bound = open_blocks(segment, source, [NodeRank(1, 2)], steps_ahead)
            first, stop = batches.epoch_range(0)
            used = [
                {int(s) // BLOCK for m in batches.of_steps(t, 1)[0] for s in m.sample_ids} for t in range(first, stop)
            ]
            last = {block: t for t, blocks in enumerate(used) for block in blocks}
            begun = {block: t for t, blocks in reversed(list(enumerate(used))) for block in blocks}
            most = max(sum(begun[b] < t + steps_ahead and last[b] >= t for b in begun) for t in range(stop - first))
            assert most <= bound <= 2 * most + 2


def test_ranks_of_a_node_are_those_that_torchrun_tells() -> None:
    environ = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert list(ranks_of_node(5, 8, environ)) == [4, 5, 6, 7]
    assert list(ranks_of_node(2, 4, environ)) == [2]  # counted in another way
    assert list(ranks_of_node(0, 1, {})) == [0]


def test_a_corpus_of_others_is_known_by_its_url_and_etag(tmp_path: Path) -> None:
    with file_server(tmp_path) as server:
        write_corpus(tmp_path / "corpus", [[i] * 50 for i in range(20)], format="mds")
        for hidden in sorted((tmp_path / "corpus" / ".tokenyard").rglob("*"), reverse=True):
            hidden.unlink() if hidden.is_file() else hidden.rmdir()
        disk = DiskCache(tmp_path / "cache", 1 << 20)
        corpus = tokenyard.open_corpus(f"{server.url}/corpus")
        corpus.read_through(disk)
        assert isinstance(corpus.folder, Bucket)
        assert [corpus[i].tolist() for i in (3, 19)] == [[3] * 50, [19] * 50]
        assert disk.counters.sums().requests


def test_an_older_epoch_may_look_for_its_turn_while_another_one_begins(
    tmp_path: Path, packed: Path, served: FileServer
) -> None:
    config = settings(f"{served.url}/npy", cache=tmp_path, cache_bytes=size_of(packed / "npy") // 2)
    stream = build_dataloader(config, 0, 1)._stream
    assert stream is not None
    assert not stream._told_steps  # as between the end of one epoch and the first step of the next
    assert stream._is_next(0)
