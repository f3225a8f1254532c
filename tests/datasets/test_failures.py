"""What a training loop gets when a shard is damaged under it."""

import pytest

import tokenyard
from tests.corpora import random_rows, write_corpus
from tokenyard.datasets.failures import Failure, attempt
from tokenyard.errors import DataError, StorageError

ENGINES = [{"num_threads": 0}, {"num_threads": 2}, {"num_workers": 2}]


def loader_over(path, **engine):
    return tokenyard.build_dataloader(
        {"data": {"path": str(path), "sample": {"seq_len": 16}}, "order": {"global_batch_size": 4}, "loader": engine},
        0,
        1,
    )


def damaged(path, format):
    """A corpus of one shard, with some of the shard's bytes turned over."""
    write_corpus(path, random_rows(seed=3, num_rows=60, longest=50), format=format)
    (shard,) = tokenyard.open_corpus(path).manifest.shards
    content = bytearray((path / shard.name).read_bytes())
    middle = slice(len(content) // 3, len(content) // 3 + 40)
    content[middle] = bytes(byte ^ 0xFF for byte in content[middle])
    (path / shard.name).write_bytes(content)
    return shard.name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_damaged_shard_is_one_error_that_names_the_file_and_the_step(tmp_path, engine, format):
    name = damaged(tmp_path / "c", format)
    with pytest.raises(DataError, match=name) as caught:
        list(loader_over(tmp_path / "c", **engine))
    assert "Traceback" not in str(caught.value)
    assert caught.value.__notes__ == ["while loading micro-batch 0 of step 0, in epoch 0"]
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shard_that_is_gone_is_one_error_that_names_it(tmp_path, engine):
    write_corpus(tmp_path / "c", random_rows(seed=3, num_rows=60, longest=50))
    loader = loader_over(tmp_path / "c", **engine)
    (shard,) = tokenyard.open_corpus(tmp_path / "c").manifest.shards
    (tmp_path / "c" / shard.name).unlink()
    with pytest.raises(StorageError, match=f"{shard.name}.*no such file") as caught:
        next(iter(loader))
    assert "Traceback" not in str(caught.value)
    assert caught.value.__notes__ == ["while loading micro-batch 0 of step 0, in epoch 0"]


def test_two_that_meet_the_same_error_tell_each_their_own_place():
    error = DataError("a: cut")
    error.add_note("while transforming sample 3")
    first, second = Failure(error).noted("in step 0"), Failure(error).noted("in step 1")
    assert first.__notes__ == ["while transforming sample 3", "in step 0"]
    assert second.__notes__ == ["while transforming sample 3", "in step 1"]
    assert error.__notes__ == ["while transforming sample 3"]
    assert (type(first), str(first), first.__traceback__) == (DataError, "a: cut", None)


def test_errors_that_are_not_ours_pass_with_the_way_they_took():
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 // 0)
