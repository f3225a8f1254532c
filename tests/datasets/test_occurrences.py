import pytest

from tests.corpora import write_corpus
from tests.runs import ROWS, RUNS, open_run, settings, write_corpora
from tokenyard.datasets.occurrences import occurrences
from tokenyard.datasets.receipt import receipt
from tokenyard.errors import ConfigError
from tokenyard.permutation import keyed as permutation

STEPS = 100
EPOCHS = range(3)
#: Runs that take every token of these epochs.
WHOLE = ("grouped", "padded budget", "budget mixture")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


def brute_force(batches, dataset, steps):
    """All that the receipts of some steps say: {(source, epoch, row): [(step, slot, sample, start, stop)]}."""
    found = {}
    for step in range(steps):
        for slot in receipt(batches, dataset, step).slots:
            for piece in slot.pieces:
                seen = found.setdefault((slot.source, slot.epoch, piece.row), [])
                seen.append((step, slot.slot, slot.sample, piece.start, piece.stop))
    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_row_is_seen_where_going_through_the_run_finds_it(home, name):
    config = settings(home, **RUNS[name])
    batches, dataset = open_run(config)
    steps = batches.progress(STEPS).steps
    expected = brute_force(batches, dataset, steps)
    num_left_out = 0
    for source in dataset.source_names:
        for row, tokens in enumerate(ROWS[source]):
            report = occurrences(batches, dataset, row, source, EPOCHS)
            assert (report.source, report.row, report.num_tokens) == (source, row, len(tokens))
            assert report.by_scanning == ("grouped" in name or "budget" in name)
            for epoch in report.epochs:
                seen = [(o.step, o.slot, o.sample, o.start, o.stop) for o in epoch.seen if o.step < steps]
                # An empty row is a sample of mode rows, of which no slot holds a piece.
                assert [o for o in seen if o[3] < o[4]] == expected.get((source, epoch.epoch, row), [])
                covered = {t for o in epoch.seen for t in range(o.start, o.stop)}
                left_out = [t for start, stop in epoch.left_out for t in range(start, stop)]
                assert left_out == [t for t in range(len(tokens)) if t not in covered]
                num_left_out += len(left_out)
    assert bool(num_left_out) == (name not in WHOLE)


@pytest.mark.parametrize("name", ["grouped mixture", "budget mixture"])
def test_a_mixture_without_end_is_gone_through_no_further_than_the_row(home, name):
    config = RUNS[name]
    batches, dataset = open_run(settings(home, **{**config, "order": {**config["order"], "epoch_samples": None}}))
    expected = brute_force(batches, dataset, STEPS)
    for row in (3, 30):
        (epoch,) = occurrences(batches, dataset, row, "code").epochs
        assert [(o.step, o.slot, o.sample, o.start, o.stop) for o in epoch.seen] == expected["code", 0, row]


def test_a_sample_that_fills_the_last_batch_up_is_seen_again(home):
    batches, dataset = open_run(settings(home, **RUNS["padded"]))
    last = batches.epoch_range(0)[1] - 1
    padding = next(slot for slot in receipt(batches, dataset, last).slots if slot.is_padding)
    (epoch,) = occurrences(batches, dataset, padding.pieces[0].row).epochs
    steps = [o.step for o in epoch.seen if o.sample == padding.sample]
    assert steps.count(last) > 1


@pytest.mark.parametrize("shuffle", ["global", "block"])
def test_a_row_of_very_many_samples_is_found_in_one_inversion(tmp_path, monkeypatch, shuffle):
    write_corpus(tmp_path / "web", [[1] * 3, [2] * 40_000, [3] * 1998])
    batches, dataset = open_run(settings(tmp_path, sample={"seq_len": 1}, order={"shuffle": shuffle}))
    hashed, splitmix = [], permutation.splitmix
    monkeypatch.setattr(permutation, "splitmix", lambda k, i: hashed.append(i.size) or splitmix(k, i))
    (epoch,) = occurrences(batches, dataset, 1).epochs
    assert sum(hashed) < 20 * len(dataset)
    assert len(epoch.seen) == 40_000
    for o in epoch.seen[::999]:
        assert [(o.step, o.slot)] == batches.plan.find(0, o.sample)


def test_an_empty_row_is_a_sample_of_rows_and_in_no_window(tmp_path):
    write_corpus(tmp_path / "web", [[1] * 9, [], [2] * 9])
    order = {"global_batch_size": 1}
    (rows,) = occurrences(*open_run(settings(tmp_path, sample={"mode": "rows", "seq_len": 9}, order=order)), 1).epochs
    (windows,) = occurrences(*open_run(settings(tmp_path, order=order)), 1).epochs
    assert ([o.sample for o in rows.seen], rows.left_out) == ([1], ())
    assert (windows.seen, windows.left_out) == ((), ())


def test_rows_and_sources_that_are_not_there_are_refused(home):
    batches, dataset = open_run(settings(home, mixture=True))
    with pytest.raises(ConfigError, match="source: rows are counted in each source; name one of web, code"):
        occurrences(batches, dataset, 0)
    with pytest.raises(ConfigError, match="source: expected one of web, code, found 'math'"):
        occurrences(batches, dataset, 0, "math")
    for row in (40, -1):
        with pytest.raises(ConfigError, match=f"row: {row} is not within the 40 rows of 'code'"):
            occurrences(batches, dataset, row, "code")
