import pytest

from tests.corpora import write_corpus
from tests.runs import ROWS, RUNS, open_run, settings, write_corpora
from tokenyard.datasets.receipt import receipt
from tokenyard.datasets.run_report import run_report


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("name", RUNS)
def test_a_report_counts_what_the_steps_take(home, name):
    batches, dataset = open_run(settings(home, **RUNS[name]))
    slots = []
    for step in range(batches.progress(40).steps):
        report = run_report(batches, dataset, step)
        taken = [slot for slot in slots if not slot.is_padding]
        assert (report.steps, report.samples) == (step, len(taken))
        # Within a group, what its steps take of each source depends on lengths.
        is_told = not batches.plan.has_groups or batches.plan.group(step)[0] == step
        for source in report.sources if is_told else ():
            mine = [slot for slot in taken if slot.source == source.name]
            assert source.samples == len(mine)
            assert source.share_samples == (len(mine) / len(taken) if taken else 0)
            if dataset.mode == "concat":
                assert source.tokens == sum(slot.seq_len for slot in mine)
        assert sum(source.tokens for source in report.sources) == pytest.approx(report.tokens)
        slots += receipt(batches, dataset, step).slots


def test_epochs_of_a_corpus_are_those_of_the_run(home):
    batches, dataset = open_run(settings(home))
    plan = batches.plan
    for epoch in range(3):
        first, stop = plan.epoch_range(epoch)
        (of_first,), (of_next,) = (run_report(batches, dataset, step).sources for step in (first, first + 1))
        assert of_first.epochs == epoch
        assert of_next.epochs == pytest.approx(epoch + 8 / len(dataset))
        assert epoch < run_report(batches, dataset, stop - 1).sources[0].epochs < epoch + 1


def test_epochs_and_shares_follow_the_weights_and_their_changes(home):
    batches, dataset = open_run(settings(home, **RUNS["weights"]))
    web, code = run_report(batches, dataset, 5).sources
    assert (web.asked_samples, code.asked_samples) == pytest.approx((0.7, 0.3))
    web, code = run_report(batches, dataset, 9).sources
    assert web.asked_samples == pytest.approx((5 * 0.7 + 4 * 0.2) / 9)
    web, code = run_report(batches, dataset, 400).sources
    assert code.share_samples == pytest.approx(code.asked_samples, abs=0.001)
    for k, source in enumerate((web, code)):
        # Lanes leave out less than a sample each in an epoch.
        assert source.epochs == pytest.approx(source.samples / dataset.num_samples_of(k), rel=0.1)


def test_a_report_says_where_and_by_which_source_a_run_ends(home):
    batches, dataset = open_run(settings(home, **RUNS["ending"]))
    report = run_report(batches, dataset, 10**6)
    assert report.steps == report.end == batches.plan.end
    assert report.ended_by == "code"
    web, code = report.sources
    assert (web.at_end, web.max_epochs, code.at_end, code.max_epochs) == ("repeat", None, "stop", 2)
    assert 1.8 < code.epochs <= 2
    assert run_report(batches, dataset, 3).end == report.end


def test_shares_of_rows_are_told_in_samples_and_in_tokens(tmp_path):
    write_corpus(tmp_path / "web", [[1] * 10] * 30)
    write_corpus(tmp_path / "code", [[2] * 40] * 30)
    batches, dataset = open_run(
        settings(tmp_path, mixture=True, sample={"mode": "rows", "seq_len": 40}, weights=(0.5, 0.5))
    )
    web, code = run_report(batches, dataset, 1000).sources
    assert (web.asked_tokens, web.asked_samples) == pytest.approx((0.5, 0.8))
    assert (code.share_tokens, code.share_samples) == pytest.approx((0.5, 0.2), abs=1e-3)
    assert web.tokens == web.samples * 10


def test_a_run_of_one_corpus_takes_all_of_it(home):
    batches, dataset = open_run(settings(home))
    (source,) = run_report(batches, dataset, 4).sources
    assert (source.name, source.share_samples, source.asked_tokens, source.samples) == ("web", 1, 1, 32)
    assert len(dataset) == (sum(map(len, ROWS["web"])) - 1) // 8
