"""An examination leaves everything as it was, and says what its figures are of."""

import json
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.corpora import write_corpus
from tests.servers.web import web_server
from tokenyard.config import load_config
from tokenyard.datasets.loader import build_dataloader
from tokenyard.doctor import examine, run
from tokenyard.doctor.page import sentence, told_check, told_need, trials_table
from tokenyard.doctor.passing import go_through
from tokenyard.doctor.ranks import Ranks, most_processes
from tokenyard.doctor.settings import DoctorSettings
from tokenyard.doctor.trial import TrialJob, try_out
from tokenyard.errors import BenchmarkError, ConfigError, TransformError

QUICK = {"seconds": 2.0, "step_ms": 20}


def rows(number, length=32):
    return np.random.default_rng(0).integers(0, 1 << 16, (number, length)).tolist()


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "data" / "c", rows(2048), shard_bytes=1 << 14)
    return tmp_path / "data" / "c"


def config_of(path, **loader):
    return {
        "data": {"path": str(path), "sample": {"mode": "rows"}},
        "order": {"global_batch_size": 16},
        "loader": loader,
    }


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_figures_come_as_json_and_on_a_page(corpus):
    before = contents(corpus.parent)
    told = []
    report = examine(config_of(corpus, micro_batch_size=4), gpus=2, on_step=told.append, **QUICK)
    assert contents(corpus.parent) == before
    assert multiprocessing.active_children() == []
    found = json.loads(json.dumps(report.to_dict()))
    assert found["need"] == {
        "gpus": 2,
        "world_size": 2,
        "step_seconds": 0.02,
        "micro_batches": pytest.approx(2),
        "samples": pytest.approx(8),
        "tokens": pytest.approx(256),
        "steps_per_second": 50,
    }
    assert found["check"]["ranks"] == 2
    assert found["check"]["steps"] > 0
    assert found["tried"][0]["loader"]["num_threads"] == 2
    assert all(one["samples_per_second"] > 0 for one in [*found["tried"], found["ceiling"]])
    assert told[0].what == "num_threads: 2"
    need = told_need(report)
    assert need["step of a rank"] == "2 micro-batches, 8 samples, 256 tokens"
    assert need["the node takes"] == "800 samples/s, 25,600 tokens/s at 20 ms a step"
    header, lines = trials_table(report)
    assert header == ["one rank alone", "batches/s", "of its need", "p99 wait", "cores", "page cache"]
    assert lines[0][0].startswith("num_threads: 2 (as it is")
    assert lines[-1][0].endswith("one batch over and over")
    assert "p99 " in told_check(report)["at the step time"]


def test_where_files_were_read_from_is_said(corpus):
    cold = examine(config_of(corpus), **QUICK)
    assert all(trial.resident_share == 0 for trial in cold.tried), "on a file system that is no disk"
    assert any(note.startswith("Cold: the corpus's files were dropped") for note in cold.notes)
    assert cold.warm is not None
    warm = examine(config_of(corpus), warm=True, **QUICK)
    assert any(note.startswith("The page cache was left as it was (--warm)") for note in warm.notes)
    assert warm.warm is None


def test_files_that_stay_in_memory_are_not_called_cold(corpus, monkeypatch):
    monkeypatch.setattr("tokenyard.doctor.page_cache.drop", lambda files, sync: None)
    report = examine(config_of(corpus), **QUICK)
    assert any("could not be dropped from the page cache: up to 100% of its files stayed" in n for n in report.notes)
    assert trials_table(report)[1][0][-1] == "100% warm"


def test_where_nobody_can_tell_what_stayed_in_memory_that_is_said(corpus, monkeypatch):
    monkeypatch.setattr("tokenyard.doctor.page_cache.resident_share", lambda files: None)
    report = examine(config_of(corpus), **QUICK)
    assert any("but what stayed can't be told" in note for note in report.notes)
    assert not any("could not be dropped" in note for note in report.notes)
    assert trials_table(report)[1][0][-1] == "-"


def test_the_warm_line_is_of_what_was_read_just_before(corpus, monkeypatch):
    jobs, trials = [], []

    def recorded(job, *args):
        jobs.append(job)
        trials.append(try_out(job, *args))
        return trials[-1]

    monkeypatch.setattr("tokenyard.doctor.ranks.try_out", recorded)
    report = examine(config_of(corpus), **QUICK)
    assert report.warm is not None
    assert jobs[-1].config == jobs[-2].config
    assert (jobs[-1].most_batches, jobs[-2].most_batches) == (trials[-2].passed.batches, None)
    assert trials[-1].passed.batches <= trials[-2].passed.batches


def test_steps_that_are_too_long_to_see_them_wait_are_said(corpus):
    begun = time.monotonic()
    report = examine(config_of(corpus), seconds=2.0, step_ms=3_600_000)
    assert time.monotonic() - begun < 600
    assert report.is_fed
    assert any(note.startswith("No step was long enough over") for note in report.notes)


def test_a_step_that_is_longer_than_a_trial_ends_with_it(corpus):
    loader = build_dataloader(config_of(corpus), 0, 1)
    begun = time.monotonic()
    passed = go_through(loader, seconds=0.1, at_most=0.2, step_seconds=3600.0)
    assert passed.batches == 1
    assert time.monotonic() - begun < 600


def test_a_cache_of_the_job_is_left_as_it_is(corpus, tmp_path):
    cache = tmp_path / "disk" / "cache"
    cache.mkdir(parents=True)
    with web_server(corpus.parent) as server:
        config = config_of(f"{server.url}/c", cache={"path": str(cache), "bytes": 1 << 28})
        report = examine(config, gpus=2, **QUICK)
    assert contents(tmp_path / "disk") == {}
    assert sorted(path.name for path in (tmp_path / "disk").iterdir()) == ["cache"]
    seen = [trial.figures.cache for trial in [*report.tried, *report.check.fast] if trial.figures is not None]
    assert any(cache.bytes_fetched > 0 for cache in seen)
    assert any(note.startswith("Each trial fetched through a cache of its own") for note in report.notes)


def test_a_mixture_is_examined_as_it_is(tmp_path):
    write_corpus(tmp_path / "a", rows(512))
    write_corpus(tmp_path / "b", rows(256), format="parquet")
    sources = [{"path": str(tmp_path / "a"), "weight": 0.7}, {"path": str(tmp_path / "b"), "weight": 0.3}]
    config = config_of("")
    config["data"] = {"sources": sources, "sample": {"mode": "rows"}}
    config["order"]["segments"] = [{"from_step": 7, "global_batch_size": 32}]
    report = examine(config, **QUICK)
    assert report.source.formats == ["npy", "parquet"]
    assert any("order.segments change it from step 7 on" in note for note in report.notes)


def test_a_run_that_a_source_ends_is_gone_through_again(tmp_path):
    write_corpus(tmp_path / "a", rows(256))
    source = {"path": str(tmp_path / "a"), "weight": 1.0, "at_end": "raise"}
    config = config_of("")
    config["data"] = {"sources": [source], "sample": {"mode": "rows"}}
    assert examine(config, **QUICK).tried[0].passed.steps > 0


def test_fewer_ranks_than_there_are_is_said(corpus, monkeypatch):
    monkeypatch.setattr(run, "most_processes", lambda cores: 2)
    report = examine(config_of(corpus), gpus=4, **QUICK)
    assert len(report.check.fast) == 2
    assert report.check.steps_per_second == pytest.approx(sum(t.steps_per_second for t in report.check.fast) / 4)
    assert any(note.startswith("2 of the 4 ranks ran at once") for note in report.notes)


def test_all_gpus_of_a_usual_node_run_whatever_the_cores_are():
    assert [most_processes(cores) for cores in (1, 2, 64)] == [8, 8, 128]


def test_settings_that_make_no_sense_are_refused(corpus):
    for settings, expected in (
        ({"step_ms": 0.0}, "step_ms: expected the milliseconds of a step, above 0, found 0.0"),
        ({"gpus": 0}, "gpus: expected a whole number from 1 on, found 0"),
        ({"nodes": -1}, "nodes: expected a whole number from 1 on, found -1"),
        ({"seconds": 0.5}, "seconds: expected 2 or more, found 0.5; less would measure how threads begin"),
    ):
        with pytest.raises(ConfigError, match=expected):
            DoctorSettings(config=load_config(config_of(corpus)), **settings)


def test_ranks_that_cannot_share_a_batch_are_refused(corpus):
    with pytest.raises(ConfigError, match="global_batch_size"):
        examine(config_of(corpus), gpus=3, **QUICK)


def test_a_transform_that_ranks_cannot_be_sent_is_refused(corpus):
    with pytest.raises(ConfigError, match=r"transform: several ranks run in processes of their own, which need one"):
        examine(config_of(corpus), gpus=2, transform=lambda sample, rng: sample, **QUICK)


def fails_in_a_rank(sample, rng):
    if os.environ.get("LOCAL_WORLD_SIZE") == "2":
        return 7
    return sample


def test_what_a_rank_ends_with_is_raised(corpus):
    with pytest.raises(TransformError, match="returned by the transform: expected a dict with tokens, found int"):
        examine(config_of(corpus), gpus=2, transform=fails_in_a_rank, **QUICK)
    assert multiprocessing.active_children() == []


def job_of(corpus):
    return TrialJob(config=load_config(config_of(corpus)), world_size=2, seconds=0.1, at_most=20)


def test_a_rank_that_is_killed_is_told(corpus):
    with Ranks(None, gpus=2, world_size=2, count=2) as ranks:
        assert len(ranks.try_out(job_of(corpus))) == 2
        (process,) = multiprocessing.active_children()
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(BenchmarkError, match=r"rank \d: its process ended before it answered; where the system"):
            ranks.try_out(job_of(corpus))


def fails_in_the_second_rank(sample, rng):
    if os.environ["LOCAL_RANK"] == "1":
        return 7
    return sample


def test_no_rank_goes_on_after_one_has_failed(corpus, tmp_path):
    endless = TrialJob(config=load_config(config_of(corpus)), world_size=4, seconds=600, at_most=600, same_batch=True)
    with Ranks(fails_in_the_second_rank, gpus=4, world_size=4, count=4) as ranks:
        with pytest.raises(TransformError):
            ranks.try_out(endless)
        # All that a rank holds is let go of: nobody writes into a cache that is to be removed.
        for pipe in ranks._pipes:
            with pytest.raises((EOFError, ConnectionError)):
                pipe.recv()


def try_in_vain(ranks, job):
    with pytest.raises(BenchmarkError, match="its process ended"):
        ranks.try_out(job)


def test_ranks_end_in_the_middle_of_a_trial_too(corpus):
    ranks = Ranks(None, gpus=2, world_size=2, count=2)
    ranks.try_out(job_of(corpus))
    endless = TrialJob(config=load_config(config_of(corpus)), world_size=2, seconds=60, at_most=60, same_batch=True)
    thread = threading.Thread(target=try_in_vain, args=(ranks, endless))
    thread.start()
    (process,) = multiprocessing.active_children()
    os.kill(process.pid, signal.SIGKILL)
    thread.join(30)
    assert not thread.is_alive()
    ranks.close()


def test_a_silent_rank_is_told(corpus, monkeypatch):
    monkeypatch.setattr("tokenyard.doctor.ranks._GRACE_S", 0.0)
    with (
        Ranks(None, gpus=2, world_size=2, count=2) as ranks,
        pytest.raises(BenchmarkError, match="rank 0: expected an answer of its process in 0 s, found none; give fewer"),
    ):
        ranks.try_out(job_of(corpus))


def test_what_can_never_be_fed_says_so_in_a_sentence(corpus):
    report = examine(config_of(corpus), seconds=2.0, step_ms=1e-5)
    assert report.is_fed is False
    assert report.changes == {}
    assert sentence(report).startswith("not fed: 1 GPU at 1e-05 ms takes 1,600,000,000 samples/s; ")
