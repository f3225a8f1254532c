"""From settings to a plan: what a planned change costs, and how one is told that doesn't fit."""

import pytest

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
