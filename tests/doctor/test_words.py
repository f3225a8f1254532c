"""Words for what a machine can't be brought to at will."""

import os
import tempfile
from dataclasses import replace

import pytest

from tests.doctor.test_sweep import NEED, UNTOLD, trial
from tests.monitor.test_verdict import WAITING
from tokenyard.config import load_config
from tokenyard.doctor.check import Check
from tokenyard.doctor.limits import limit_of
from tokenyard.doctor.notes import notes
from tokenyard.doctor.page import advice, sentence
from tokenyard.doctor.page_cache import make_cold
from tokenyard.doctor.report import DoctorReport
from tokenyard.doctor.scratch_cache import scratch_cache
from tokenyard.doctor.settings import DoctorSettings
from tokenyard.doctor.source import Source
from tokenyard.errors import ConfigError, StorageError

FAST = trial(50, num_threads=2)
SOURCE = Source(formats=["npy"], paths=["c"], places=["ext4"], num_bytes=1, memory_bytes=None, files=[])


def paced(waited):
    found = trial(50, num_threads=2)
    found.passed.waits.extend([waited] * 10)
    return found


def report(need, waited):
    check = Check(loader=FAST.loader, gpus=1, fast=[FAST], paced=[paced(waited)], step_seconds=0.01)
    return DoctorReport(
        need=need,
        configured=FAST.loader,
        cores=2,
        source=SOURCE,
        ceiling=FAST,
        tried=[FAST],
        warm=None,
        check=check,
        limit=None,
        notes=(),
    )


def test_where_no_step_time_is_fed_that_is_said():
    assert sentence(report(UNTOLD, 0.01)) == (
        "no step time was found with which 1 GPU is fed: steps of 10 ms wait 50 % of their time; num_threads: 2 gives "
        "400 samples/s"
    )


def test_too_few_steps_for_a_verdict_are_said():
    found = report(NEED, 0.01)
    assert sentence(found) == "not fed: 1 GPU at 10 ms takes 800 samples/s; num_threads: 2 gives 400 (0.5x)"
    assert list(advice(found)) == [
        "too few steps came to tell what the limit is; measure for longer (--seconds)",
    ]


def test_enough_on_average_that_waits_now_and_then_is_said():
    found = report(replace(NEED, step_seconds=0.025), 0.05)
    assert "gives 400 (1.25x), but steps wait 83.3 % of their time" in sentence(found)


def noted(ceiling, *, step_ms=10.0, warm=None):
    config = load_config({"data": {"path": "c"}, "order": {"global_batch_size": 8}})
    settings = DoctorSettings(config=config, step_ms=step_ms)
    check = report(NEED, 0.01).check
    return "\n".join(notes(settings, SOURCE, [FAST], check, ceiling, warm, is_whole=True))


def test_a_ceiling_below_what_was_given_is_said_to_be_none():
    words = "The ceiling came out lower than what the same setting gave with real batches, which can't be"
    assert words in noted(trial(49, num_threads=2))
    assert words in noted(trial(51, num_threads=2), warm=trial(60, num_threads=2))
    assert words not in noted(trial(51, num_threads=2))
    assert words not in noted(trial(49, num_threads=1)), "fewer threads may give less"


def test_without_a_step_time_no_limit_and_no_change_is_told():
    config = load_config({"data": {"path": "c"}, "order": {"global_batch_size": 8}})
    check = Check(loader=FAST.loader, gpus=1, fast=[seen(FAST)], paced=[seen(FAST)], step_seconds=0.001)
    need = replace(UNTOLD, step_seconds=0.001)
    assert limit_of(check, need, config, more_may_help=True).kind == "disk"
    assert limit_of(check, UNTOLD, config, more_may_help=True) is None
    assert "is told with --step-ms alone" in noted(FAST, step_ms=None)
    assert "is told with --step-ms alone" not in noted(FAST)
    other = replace(report(UNTOLD, 0.0), configured=trial(9, num_threads=1).loader)
    assert other.changes == {}
    assert list(advice(other)) == []


def seen(found):
    return replace(found, figures=WAITING)


def test_waits_that_are_reckoned_are_told_apart_from_those_of_the_check():
    config = load_config({"data": {"path": "c"}, "order": {"global_batch_size": 8}})
    check = Check(loader=FAST.loader, gpus=1, fast=[seen(FAST)], paced=[seen(FAST)], step_seconds=0.001)
    limit = limit_of(check, replace(UNTOLD, step_seconds=0.001), config, more_may_help=True)
    assert limit.evidence.startswith(
        "reckoned from batches taken as fast as they came: a step waits 19 ms for its data"
    )
    check = replace(check, step_seconds=0.04)
    limit = limit_of(check, replace(UNTOLD, step_seconds=0.04), config, more_may_help=True)
    assert limit.evidence.startswith("a step waits 60 ms for its data, 60% of it")
    assert check.wait_share == 0.6


def test_a_disk_without_room_for_a_cache_is_told(tmp_path, monkeypatch):
    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    cache = {"bytes": 1 << 20, "path": str(tmp_path / "a" / "cache")}
    config = load_config({"data": {"path": "s3://b/c"}, "order": {"global_batch_size": 8}, "loader": {"cache": cache}})
    with (
        pytest.raises(
            StorageError, match=f"can't make a cache in {tmp_path}, on the disk of loader.cache: the disk is full"
        ),
        scratch_cache(config),
    ):
        pass


def test_a_cache_that_is_all_of_its_disk_or_of_what_may_be_written_holds_the_one_of_a_trial(tmp_path, monkeypatch):
    home = tmp_path / "cache"
    home.mkdir()
    cache = {"bytes": 1 << 20, "path": str(home)}
    config = load_config({"data": {"path": "s3://b/c"}, "order": {"global_batch_size": 8}, "loader": {"cache": cache}})
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with scratch_cache(config) as own:
        assert [str(path) for path in home.iterdir()] == [own.loader.cache.path]
    assert list(home.iterdir()) == []


def test_a_cache_that_is_too_small_for_want_of_room_says_so(tmp_path):
    cache = {"bytes": 1 << 60, "path": str(tmp_path / "cache")}
    config = load_config({"data": {"path": "s3://b/c"}, "order": {"global_batch_size": 8}, "loader": {"cache": cache}})
    with pytest.raises(ConfigError, match="too few") as found, scratch_cache(config):
        raise ConfigError("loader.cache.bytes: too few")
    (note,) = found.value.__notes__
    assert f"half of what is free at {tmp_path}, and not the {1 << 60} of loader.cache" in note


def test_files_that_cannot_be_dropped_are_told(tmp_path):
    with pytest.raises(StorageError, match=r"can't drop the corpus's files from the page cache; .* \(--warm\)"):
        make_cold([tmp_path / "nowhere"], 1.0)
