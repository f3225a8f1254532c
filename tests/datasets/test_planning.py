"""From settings to a plan: what a planned change costs, and how one is told that doesn't fit."""

import pytest

from tests.corpora import write_corpus
from tests.runs import open_run, settings, write_corpora
from tokenyard.datasets.mixture_dataset import MixtureDataset
from tokenyard.datasets.order import plan as plans
from tokenyard.datasets.order.epochs import EpochCourse
from tokenyard.datasets.planning import make_batches
from tokenyard.errors import ConfigError


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("planning"))


def test_each_planned_change_is_worked_out_once_however_many_there_are(home, monkeypatch):
    made = []

    def course(segment, left):
        made.append(segment.first_step)
        return EpochCourse(segment, left)

    monkeypatch.setattr(plans, "EpochCourse", course)
    segments = [{"from_step": 3 * i, "global_batch_size": 4 * (1 + i % 3)} for i in range(1, 20)]
    open_run(settings(home, order={"segments": segments}))
    assert made == [0, *(segment["from_step"] for segment in segments)]


def test_where_sources_begin_is_counted_once_for_each_sequence_length(home, monkeypatch):
    order = {"unit_tokens": 16, "segments": [{"from_step": 4, "seq_len": 16}]}
    batches, dataset = open_run(settings(home, mixture=True, order=order))
    expected = {step: [batch.sample_ids.tolist() for batch in batches.of_steps(step, 1)[0]] for step in (0, 5)}
    counted = []
    num_samples_of = MixtureDataset.num_samples_of
    monkeypatch.setattr(
        MixtureDataset, "num_samples_of", lambda self, k: counted.append((self.seq_len, k)) or num_samples_of(self, k)
    )
    batches = make_batches(settings(home, mixture=True, order=order), dataset, 0, 1)
    counted.clear()
    for _ in range(3):
        for step, ids in expected.items():
            assert [batch.sample_ids.tolist() for batch in batches.of_steps(step, 1)[0]] == ids
    assert counted == [(8, 0), (8, 1), (16, 0), (16, 1)]


def test_a_past_that_took_a_corpus_which_is_gone_is_told_by_it(home):
    both, _ = open_run(settings(home, mixture=True))
    alone = settings(home, mixture=True)
    alone = alone.model_copy(update={"data": alone.data.model_copy(update={"sources": alone.data.sources[:1]})})
    batches, step = open_run(alone)[0].resumed(both.state(5), new_segment=True)
    assert {0} == set(batches.of_steps(step, 1)[0][0].sources.tolist())
    with pytest.raises(
        ConfigError, match=r"data\.sources: ty1:\w+ is not among them, .*put it back, or go on with later"
    ):
        batches.of_steps(0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sample": {"seq_len": 5000}},
            r"data\.path: .*web holds 1358 tokens, and a sample of seq_len 5000 takes 5001, the last label among them, "
            r"so there is no sample; lower seq_len to 1357 or less, or name a larger corpus$",
        ),
        (
            {"sample": {"seq_len": 5000, "labels": "same"}, "order": {"last_batch": "pad"}},
            "a sample of seq_len 5000 takes 5000, so there is no sample; lower seq_len to 1358 or less",
        ),
        ({"order": {"unit_tokens": 8000}}, "a unit of order.unit_tokens 8000 .*; lower order.unit_tokens to 1357"),
        (
            {"sample": {"seq_len": 1000}, "mixture": True},
            r"data\.sources: 'code' holds 401 tokens, .*; lower seq_len to 400 .*or leave the source out$",
        ),
        (
            {"order": {"segments": [{"from_step": 19, "seq_len": 5000}]}},
            r"order\.segments\.0: data\.path: .*a sample of seq_len 5000 takes 5001",
        ),
        (
            {"sample": {"seq_len": 100}, "order": {"global_batch_size": 16}},
            "there are 13 samples in an epoch, which fill no global batch of 16, .*; "
            "lower global_batch_size to 13 or less, or lower seq_len, or choose last_batch pad$",
        ),
        (
            {"sample": {"mode": "rows", "seq_len": None}, "order": {"global_batch_size": 100}},
            "there are 90 samples .*; lower global_batch_size to 90 or less, or choose last_batch pad$",
        ),
    ],
)
def test_settings_that_give_no_sample_or_no_step_are_refused_with_the_numbers_and_the_way_out(home, changes, message):
    with pytest.raises(ConfigError, match=message):
        open_run(settings(home, **changes))


@pytest.mark.parametrize(
    ("rows", "sample", "message"),
    [
        ([], {"mode": "rows", "seq_len": None}, "web holds no row, and so no sample of mode rows; name a corpus with"),
        ([[7]], {}, "holds 1 tokens, and a sample of seq_len 8 takes 9, .*so there is no sample; name a larger corpus"),
    ],
)
def test_a_corpus_without_anything_to_train_on_is_refused(tmp_path, rows, sample, message):
    write_corpus(tmp_path / "web", rows)
    with pytest.raises(ConfigError, match=message):
        open_run(settings(tmp_path, sample=sample))
