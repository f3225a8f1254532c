"""Ids that a model, a schema or a dtype has not."""

import json

import numpy as np
import pytest

import tokenyard
from tests.preflight.looked import look, of_corpus, the_line
from tests.preflight.texts import documents, marked
from tokenyard.corpus import open_corpus
from tokenyard.errors import ConfigError
from tokenyard.looking.lengths import spread_shards
from tokenyard.preflight.model import model_facts


@pytest.fixture
def corpus(tmp_path):
    return marked(tmp_path / "c", documents(20)).path


def model(folder, **said):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **said}))
    return folder


def test_a_model_with_as_many_ids_passes(corpus, tmp_path):
    config = of_corpus(corpus)
    match = r"ids up to 8\d\d in all \d+ tokens; uint16, vocab_size 1,000; the model has 1,024"
    the_line(look(config, vocab_size=1024), "vocabulary", "pass", match=match)
    the_line(look(config, model=model(tmp_path / "m", vocab_size=1024)), "vocabulary", "pass", match=match)
    the_line(look(config, model=model(tmp_path / "m", text_config={"vocab_size": 1024})), "vocabulary", "pass")


def test_without_a_model_the_schema_is_looked_at_alone(corpus):
    the_line(look(of_corpus(corpus)), "vocabulary", "pass", match="no model to compare with")


def test_an_id_that_the_model_has_not_fails(corpus):
    report = look(of_corpus(corpus), vocab_size=500)
    the_line(report, "vocabulary", "fail", match=r"the model has ids 0 \.\. 499: its embedding has no row.*-> name")
    assert not report.ok


def test_a_mark_that_the_model_has_not_fails(tmp_path):
    corpus = marked(tmp_path / "c", documents(9), eos_token_id=999).path
    the_line(look(of_corpus(corpus), vocab_size=950), "vocabulary", "fail", match="eos_token_id is 999, and the model")


def test_ids_that_the_tokenizer_may_give_and_the_model_has_not_warn(corpus):
    match = r"may give ids up to 999, and the model has ids 0 \.\. 989; none past them was read"
    the_line(look(of_corpus(corpus), vocab_size=990), "vocabulary", "warn", match=match)


def test_a_model_with_far_more_ids_warns(corpus):
    match = "127,256 ids more than the tokenizer, which no rounding explains"
    the_line(look(of_corpus(corpus), vocab_size=128256), "vocabulary", "warn", match=match)


def test_an_id_past_the_schemas_own_vocabulary_fails(tmp_path):
    np.save(tmp_path / "tokens.npy", np.array([[5, 10, 700], [1, 2, 3]], np.uint16))
    corpus = marked(tmp_path / "c", [[5, 10], [1, 2]], vocab_size=700)
    file = corpus.path / ".tokenyard/manifest.json"
    file.write_text(file.read_text().replace('"vocab_size": 700', '"vocab_size": 8'))
    the_line(
        look(of_corpus(corpus.path)),
        "vocabulary",
        "fail",
        match="id 10 is in the corpus, whose schema says vocab_size 8",
    )


def test_a_dtype_that_is_too_narrow_for_the_vocabulary_warns(tmp_path):
    corpus = marked(tmp_path / "c", documents(9))
    file = corpus.path / ".tokenyard/manifest.json"
    file.write_text(file.read_text().replace('"vocab_size": 1000', '"vocab_size": 70000'))
    the_line(look(of_corpus(corpus.path)), "vocabulary", "warn", match="token_dtype uint16 can't hold id 69999")


def test_ids_read_with_a_wrong_dtype_fail(tmp_path):
    np.save(tmp_path / "t.npy", np.full((8, 4), 1 << 30, np.int64))
    np.save(tmp_path / "u.npy", np.full((8, 4), 7, np.int64))
    the_line(look(of_corpus(tmp_path)), "vocabulary", "fail", match="32 ids are negative or larger.*wrong dtype")


def test_a_large_corpus_is_sampled_and_the_share_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenyard.preflight.contents._SAMPLE_TOKENS", 200)
    corpus = marked(tmp_path / "c", documents(300)).path
    sampled = the_line(look(of_corpus(corpus)), "vocabulary", "pass", match=r"in 1\d\d tokens, \d[.\d]* % of all")
    assert sampled == the_line(look(of_corpus(corpus)), "vocabulary", "pass")
    the_line(look(of_corpus(corpus), full=True), "vocabulary", "pass", match="in all")


def test_a_corpus_of_one_row_that_is_longer_than_a_sample_is_read_in_windows(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenyard.preflight.contents._SAMPLE_TOKENS", 200)
    np.save(tmp_path / "t.npy", np.arange(5000, dtype=np.uint16))
    config = of_corpus(tmp_path, sample={"seq_len": 16})
    the_line(look(config, vocab_size=4000), "vocabulary", "fail", match="the model has ids 0 .. 3,999")


def test_samples_longer_than_the_models_positions_warn(corpus, tmp_path):
    config = of_corpus(corpus, sample={"seq_len": 32})
    folder = model(tmp_path / "m", vocab_size=1024, max_position_embeddings=16)
    the_line(look(config, model=folder), "first batch", "warn", match="32 tokens, the model was made for 16 positions")
    the_line(look(config, model=model(folder, vocab_size=1024, n_positions=64)), "first batch", "pass")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (None, "no such file; name the config.json of the model, or its folder: nothing is downloaded"),
        ("{", "expected the config.json of a model, found no JSON"),
        ("[1]", r"expected the config.json of a model, found \[1\]"),
        ('{"model_type": "clip"}', "with its vocab_size, found the keys model_type; name another file"),
        ('{"vocab_size": "many"}', "with its vocab_size, found the keys vocab_size"),
    ],
)
def test_what_is_no_config_of_a_model_is_refused(tmp_path, content, match):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=match):
        model_facts(tmp_path if content is not None else tmp_path / "config.json", None)


def test_a_model_and_a_size_are_refused_together(tmp_path):
    with pytest.raises(ConfigError, match="model and vocab_size both say how many ids"):
        model_facts(tmp_path, 100)


def test_of_compressed_shards_a_few_are_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenyard.preflight.contents._LOCAL_SHARDS", 2)
    tokenyard.convert(
        marked(tmp_path / "c", documents(90)).path, tmp_path / "z", to="mds", compression="zstd", shard_bytes=600
    )
    corpus = open_corpus(tmp_path / "z")
    rows = corpus.manifest.rows_of_shards
    decoded = sum(int(corpus.row_lengths(*corpus.shard_row_starts[k : k + 2]).sum()) for k in spread_shards(corpus, 2))
    assert len(rows) > 3
    the_line(look(of_corpus(tmp_path / "z")), "vocabulary", "pass", match=rf"in {decoded} tokens, .* % of all")
    the_line(look(of_corpus(tmp_path / "z"), full=True), "vocabulary", "pass", match="in all")
