import multiprocessing
import os
import subprocess
import sys
import threading
import time
import traceback

import pytest
import torch
from blake3 import blake3

import tokenyard
from tests.corpora import FORMATS, random_rows, write_corpus
from tests.servers.copies import upload
from tokenyard.datasets.handover import Receiver
from tokenyard.errors import ConfigError, DataError, NotACorpusError

CONTEXTS = ["fork", "spawn", "forkserver"]
ROWS = random_rows(seed=1, num_rows=60, longest=50)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "c"
    write_corpus(path, ROWS, shard_bytes=1000)
    return path


def settings(path, *, sample=None, order=None, **loader):
    return {
        "data": {"path": str(path), "sample": {"seq_len": 16, "boundaries": True, **(sample or {})}},
        "order": {"seed": 7, "global_batch_size": 8, "block_samples": 4, **(order or {})},
        "loader": loader,
    }


def ids_of(batches):
    return [batch["sample_ids"].tolist() for batch in batches]


def expected_ids(path, epoch, **options):
    loader = tokenyard.build_dataloader(settings(path, num_threads=0, **options), 0, 1)
    loader.set_epoch(epoch)
    return ids_of(loader)


def digest(path, world_size, **options):
    """Of two epochs of global batches: the tensors of all ranks, step by step, the ranks in their order."""
    loaders = [tokenyard.build_dataloader(settings(path, **options), rank, world_size) for rank in range(world_size)]
    hasher = blake3()
    for _ in range(2):
        for parts in zip(*loaders, strict=True):
            for name in ("sample_ids", "input_ids", "labels", "position_ids", "document_ids", "sample_mask"):
                hasher.update(torch.cat([part[name] for part in parts]).numpy().tobytes())
    return hasher.hexdigest()


@pytest.fixture(scope="module")
def the_digest(corpus):
    return digest(corpus, 1, order={"last_batch": "pad"}, num_threads=0)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 2, "multiprocessing_context": "fork"}])
def test_batches_are_equal_in_every_format_at_any_world_size_and_number_of_workers(
    tmp_path, the_digest, format, world_size, engine
):
    write_corpus(tmp_path / "c", ROWS, format=format, shard_bytes=1500)
    assert digest(tmp_path / "c", world_size, order={"last_batch": "pad"}, **engine) == the_digest


@pytest.mark.parametrize("context", CONTEXTS)
def test_batches_are_equal_however_workers_are_started(corpus, the_digest, context):
    engine = {"num_workers": 2, "multiprocessing_context": context, "persistent_workers": True}
    assert digest(corpus, 1, order={"last_batch": "pad"}, **engine) == the_digest


def test_a_batch_is_what_the_stream_says(corpus):
    stream = torch.tensor([t for row in ROWS for t in row])
    loader = tokenyard.build_dataloader(settings(corpus, micro_batch_size=4), 0, 2)
    assert (len(loader), loader.micro_batches_per_step) == ((len(stream) - 1) // 16 // 8, 1)
    for batch in loader:
        assert batch["input_ids"].shape == batch["labels"].shape == (4, 16)
        assert batch["input_ids"].dtype == batch["labels"].dtype == batch["sample_ids"].dtype == torch.int64
        for i, inputs, labels in zip(batch["sample_ids"], batch["input_ids"], batch["labels"], strict=True):
            assert torch.equal(inputs, stream[i * 16 : i * 16 + 16])
            assert torch.equal(labels, stream[i * 16 + 1 : i * 16 + 17])


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 2, "prefetch_factor": 1}])
def test_all_tensors_are_contiguous_and_none_is_written_again(corpus, engine):
    loader = tokenyard.build_dataloader(settings(corpus, **engine), 0, 1)
    kept = list(loader)
    copies = [{name: tensor.clone() for name, tensor in batch.items()} for batch in kept]
    for batch in loader:
        for tensor in batch.values():
            assert tensor.is_contiguous()
            tensor.fill_(0)
    assert all(torch.equal(kept[i][name], copies[i][name]) for i in range(len(kept)) for name in kept[i])


@pytest.mark.parametrize("prefetch_factor", [1, 2, 4])
def test_a_worker_as_far_ahead_as_it_may_be_writes_over_nothing(corpus, monkeypatch, prefetch_factor):
    expected = ids_of(tokenyard.build_dataloader(settings(corpus), 0, 1))
    engine = {"num_workers": 1, "prefetch_factor": prefetch_factor, "persistent_workers": True}
    loader = tokenyard.build_dataloader(settings(corpus, **engine), 0, 1)
    remaining = len(loader)
    assert remaining > 2 * prefetch_factor + 1
    receive = Receiver.receive

    def receive_when_the_worker_has_done_all_it_was_asked_for(self, parcel, *, pin_memory):
        nonlocal remaining
        remaining -= 1
        done = loader._workers._loader._iterator._worker_result_queue
        until = time.monotonic() + 60
        while done.qsize() < min(prefetch_factor, remaining):
            assert time.monotonic() < until
            time.sleep(0.001)
        return receive(self, parcel, pin_memory=pin_memory)

    monkeypatch.setattr(Receiver, "receive", receive_when_the_worker_has_done_all_it_was_asked_for)
    assert ids_of(loader) == expected


@pytest.mark.parametrize("engine", [{"num_threads": 0}, {"num_threads": 3}, {"num_workers": 1}])
def test_padding_is_told_and_gives_no_labels(corpus, engine):
    pad = {"last_batch": "pad", "global_batch_size": 32}
    for rank in range(2):
        loader = tokenyard.build_dataloader(settings(corpus, order=pad, **engine), rank, 2)
        *whole, last = loader
        assert all(batch["sample_mask"].all() for batch in whole)
        padding = ~last["sample_mask"]
        assert last["sample_mask"].dtype == torch.bool
        assert padding.sum() == (rank == 1) * (-len(loader.dataset) % 32)
        assert (last["labels"][padding] == -100).all()
        assert (last["labels"][~padding] != -100).all()
    drop = tokenyard.build_dataloader(settings(corpus, order={"global_batch_size": 32}), 0, 2)
    assert 0 < -len(loader.dataset) % 32 < 16
    assert len(drop) == len(loader) - 1
    assert "sample_mask" not in next(iter(drop))


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 2}])
def test_each_iteration_is_the_next_epoch_and_set_epoch_chooses(corpus, engine):
    loader = tokenyard.build_dataloader(settings(corpus, **engine), 0, 1)
    assert ids_of(loader) == expected_ids(corpus, 0)
    for _ in loader:
        break
    assert ids_of(loader) == expected_ids(corpus, 2)
    loader.set_epoch(1)
    assert ids_of(loader) == expected_ids(corpus, 1)
    assert expected_ids(corpus, 0) != expected_ids(corpus, 1)


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_persistent_workers_that_were_interrupted_serve_later_epochs_whole(tmp_path, context):
    write_corpus(tmp_path / "c", [[i, i] for i in range(128)], shard_bytes=640)
    options = {"sample": {"mode": "rows", "seq_len": None, "boundaries": False}, "order": {"global_batch_size": 2}}
    engine = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": context}
    loader = tokenyard.build_dataloader(settings(tmp_path / "c", **options, **engine), 0, 1)
    assert len(loader.dataset.corpus.manifest.shards) == 4
    assert len(loader) == 64
    for i, _ in enumerate(loader):
        if i == 60:
            break
    for epoch in (1, 2):
        found = ids_of(loader)
        assert len(found) == 64
        assert found == expected_ids(tmp_path / "c", epoch, **options)


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_epochs_that_are_left_early_leave_no_open_files(corpus, context):
    engine = {"num_workers": 1, "persistent_workers": True, "multiprocessing_context": context}
    loader = tokenyard.build_dataloader(settings(corpus, **engine), 0, 1)
    counts = []
    for _ in range(12):
        for _ in loader:
            break
        (worker,) = loader._workers._loader._iterator._workers
        counts.append(len(os.listdir(f"/proc/{worker.pid}/fd")))
    # A few wait for an answer now and then; they would be five more each time.
    assert max(counts) <= counts[0] + 10


def test_two_loops_over_persistent_workers_at_once_are_refused(corpus):
    loader = tokenyard.build_dataloader(settings(corpus, num_workers=1, persistent_workers=True), 0, 1)
    first, second = iter(loader), iter(loader)
    next(first)
    next(second)
    with pytest.raises(ConfigError, match="another epoch was begun while this one was being read"):
        next(first)
    assert len(ids_of(second)) == len(loader) - 1


def test_an_epoch_begins_with_its_first_batch(corpus):
    loader = tokenyard.build_dataloader(settings(corpus), 0, 1)
    iter(loader)
    batches = iter(loader)
    loader.set_epoch(3)
    assert ids_of(batches) == expected_ids(corpus, 3)
    assert ids_of(loader) == expected_ids(corpus, 4)


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 1}])
def test_two_loops_at_once_are_two_epochs(corpus, engine):
    loader = tokenyard.build_dataloader(settings(corpus, **engine), 0, 1)
    first, second = zip(*zip(loader, loader, strict=True), strict=True)
    assert ids_of(first) == expected_ids(corpus, 0)
    assert ids_of(second) == expected_ids(corpus, 1)


def is_alive(pid):
    """Other tests have shared memory of their own, and live."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("engine", [{"num_threads": 3}, {"num_workers": 2}])
def test_a_loop_left_early_leaves_nothing_behind(corpus, engine):
    shared_memory = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    loader = tokenyard.build_dataloader(settings(corpus, **engine), 0, 1)
    for _ in range(3):
        for _ in loader:
            break
        assert not [t for t in threading.enumerate() if t.name.startswith("tokenyard")]
        assert not multiprocessing.active_children()
    if shared_memory:
        new = set(os.listdir("/dev/shm")) - shared_memory
        assert not [name for name in new if name.startswith("torch_") and not is_alive(int(name.split("_")[1]))]
    assert len(ids_of(loader)) == len(loader)


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 1, "persistent_workers": True}])
def test_a_program_that_ends_in_mid_epoch_ends_at_once_and_in_silence(corpus, tmp_path, engine):
    program = tmp_path / "program.py"
    program.write_text(
        "import tokenyard\n"
        f"loader = tokenyard.build_dataloader({settings(corpus, **engine)!r}, 0, 1)\n"
        "batches = iter(loader)\n"
        "print(len(next(batches)['input_ids']))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")


@pytest.mark.parametrize(
    "engine",
    [{"num_threads": 0}, {"num_threads": 2}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}],
)
def test_what_fails_while_reading_reaches_the_loop(tmp_path, engine):
    rows = [[1, 2, 3]] * 8
    masks = [[1, 1, 1]] * 7 + [[1, 1]]
    write_corpus(tmp_path / "c", rows, loss_mask=("uint8[]", masks))
    sample = {"mode": "rows", "seq_len": None, "boundaries": False}
    order = {"shuffle": "none", "global_batch_size": 2}
    loader = tokenyard.build_dataloader(settings(tmp_path / "c", sample=sample, order=order, **engine), 0, 1)
    found = []
    with pytest.raises(DataError, match="row 7: 2 items of field 'loss_mask', but 3 tokens") as caught:
        found.extend(loader)
    assert len(found) == 3
    if "persistent_workers" not in engine:
        assert not multiprocessing.active_children()
    assert caught.value.__notes__ == ["while loading micro-batch 0 of step 3, in epoch 0"]
    assert "Traceback" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    # This function's line, and the loader's.
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 3
    loader.set_epoch(0)
    assert next(iter(loader))["sample_ids"].tolist() == [0, 1]


@pytest.mark.parametrize("engine", [{"num_threads": 2}, {"num_workers": 1}])
def test_reading_leaves_the_random_numbers_of_the_model_alone(corpus, engine):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    for _ in tokenyard.build_dataloader(settings(corpus, **engine), 0, 1):
        pass
    assert torch.equal(torch.rand(3), expected)


def test_the_rank_is_found_in_the_environment(corpus, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = tokenyard.build_dataloader(settings(corpus))
    assert ids_of(found) == ids_of(tokenyard.build_dataloader(settings(corpus), 1, 2))
    assert found.micro_batches_per_step == 1


def test_pinning_without_cuda_warns_and_goes_on(corpus, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="loader.pin_memory is true, but there is no CUDA device"):
        loader = tokenyard.build_dataloader(settings(corpus, pin_memory=True, num_workers=1), 0, 1)
    assert not next(iter(loader))["input_ids"].is_pinned()
    for quiet in ("auto", False):
        tokenyard.build_dataloader(settings(corpus, pin_memory=quiet), 0, 1)


@pytest.mark.parametrize(
    ("order", "loader", "world_size", "message"),
    [
        ({"global_batch_size": 8}, {}, 3, "global_batch_size: expected a multiple of world_size 3, found 8"),
        ({}, {"micro_batch_size": 3}, 2, "micro_batch_size: expected a divisor of the 4 samples of a rank"),
        ({"global_batch_size": 2}, {}, 4, "global_batch_size: expected a multiple of world_size 4, found 2"),
        ({"global_batch_size": 4096}, {}, 1, "which fill no global batch of 4096"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(corpus, order, loader, world_size, message):
    with pytest.raises(ConfigError, match=message):
        tokenyard.build_dataloader(settings(corpus, order=order, **loader), 0, world_size)


def test_the_format_is_checked_where_it_is_named(corpus, tmp_path):
    named = settings(corpus)
    named["data"]["format"] = "npy"
    assert len(tokenyard.build_dataloader(named, 0, 1))
    named["data"]["format"] = "mds"
    with pytest.raises(ConfigError, match="is a corpus in format npy, not mds"):
        tokenyard.build_dataloader(named, 0, 1)
    with pytest.raises(NotACorpusError, match="no such file or folder"):
        tokenyard.build_dataloader(settings(tmp_path / "nowhere"), 0, 1)


def test_a_loader_is_built_from_a_file_too(corpus, tmp_path):
    file = tmp_path / "train.yaml"
    file.write_text(f"data: {{path: {corpus}, sample: {{seq_len: 16}}}}\norder: {{global_batch_size: 8, seed: 7}}\n")
    assert len(tokenyard.build_dataloader(file, 0, 1)) == len(tokenyard.build_dataloader(settings(corpus), 0, 1))
    assert len(tokenyard.build_dataloader(tokenyard.load_config(file), 0, 1))


@pytest.mark.parametrize("format", ["npy", "parquet"])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_from_a_bucket_are_those_from_a_disk(format, workers, tmp_path, bucket):
    write_corpus(tmp_path / "c", ROWS, format=format, shard_bytes=1000)
    upload(tmp_path / "c", bucket)
    mode = {"num_workers": 2, "num_threads": 0} if workers else {"num_threads": 2}
    local = tokenyard.build_dataloader(settings(tmp_path / "c", num_threads=0), rank=0, world_size=1)
    remote = tokenyard.build_dataloader(settings(bucket, **mode), rank=0, world_size=1)
    for ours, theirs in zip(local, remote, strict=True):
        assert torch.equal(ours["input_ids"], theirs["input_ids"])
        assert torch.equal(ours["sample_ids"], theirs["sample_ids"])
