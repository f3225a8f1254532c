"""States of runs on corpora that others made, which are known by their files until they have a digest."""

import json
import re
import shutil

import pytest

import tokenyard
from tests.corpora import random_rows, write_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.errors import ConfigError


def loader(path):
    settings = {"data": {"path": str(path), "sample": {"seq_len": 16}}, "order": {"global_batch_size": 12}}
    return tokenyard.build_dataloader(settings, 0, 1)


def stopped_after(path, num_steps):
    """The state after some steps, and the sample ids of the rest of the epoch."""
    found = loader(path)
    batches = iter(found)
    for _ in range(num_steps):
        next(batches)
    state = json.dumps(found.state_dict())
    return json.loads(state), [batch["sample_ids"].tolist() for batch in batches]


def foreign(path, seed=1):
    write_corpus(path, random_rows(seed, 200, 60), format="mds")
    shutil.rmtree(path / ".tokenyard")
    return path


def test_a_run_goes_on_after_its_corpus_was_given_a_digest(tmp_path):
    path = foreign(tmp_path / "c")
    state, rest = stopped_after(path, 3)
    assert state["corpora"][0].startswith("structural:")
    index_corpus(path)
    found = loader(path)
    found.load_state_dict(state)
    assert [batch["sample_ids"].tolist() for batch in found] == rest
    assert found.state_dict()["corpora"] == [found.dataset.corpus.digest]


def test_a_corpus_without_a_digest_is_not_taken_for_one_with_it(tmp_path):
    path = foreign(tmp_path / "c")
    shutil.copytree(path, tmp_path / "copy")
    index_corpus(path)
    state, _ = stopped_after(path, 3)
    with pytest.raises(
        ConfigError, match=r"the corpora were \['ty1:.*these settings has no digest.*tokenyard index PATH gives it one"
    ):
        loader(tmp_path / "copy").load_state_dict(state)
    index_corpus(tmp_path / "copy")
    loader(tmp_path / "copy").load_state_dict(state)


def test_a_state_of_a_corpus_without_a_digest_comes_to_another_format_as_its_message_says(tmp_path):
    path, copy = foreign(tmp_path / "c"), tmp_path / "parquet"
    state, rest = stopped_after(path, 3)
    tokenyard.convert(path, copy, to="parquet")
    way = (
        "the corpora were ['structural:",
        "run tokenyard index PATH where that run read it, load the state there and save it again, by which it names "
        "the content's digest and loads from any format",
    )
    with pytest.raises(ConfigError, match=".*".join(map(re.escape, way))):
        loader(copy).load_state_dict(state)
    index_corpus(path)
    found = loader(path)
    found.load_state_dict(state)
    saved_again = json.loads(json.dumps(found.state_dict()))
    found = loader(copy)
    found.load_state_dict(saved_again)
    assert [batch["sample_ids"].tolist() for batch in found] == rest


def test_another_corpus_of_others_is_refused(tmp_path):
    state, _ = stopped_after(foreign(tmp_path / "a"), 3)
    with pytest.raises(
        ConfigError, match=r"the corpora were .*where that run read it.*; a corpus of these settings has no digest"
    ):
        loader(foreign(tmp_path / "b", seed=2)).load_state_dict(state)
