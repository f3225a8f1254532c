"""Which settings are tried one after another, which is taken, and what must change for it."""

import pytest

from tokenyard.config import LoaderConfig
from tokenyard.doctor.changes import as_yaml, changed, in_words
from tokenyard.doctor.need import Need
from tokenyard.doctor.passing import Passed
from tokenyard.doctor.sweep import choose, sweep, wait_p99
from tokenyard.doctor.trial import Trial

CORES = 16
#: A need of 100 steps a second.
NEED = Need(gpus=1, world_size=1, step_seconds=0.01, micro_batches=1, samples=8, tokens=8192)
UNTOLD = Need(gpus=1, world_size=1, step_seconds=None, micro_batches=1, samples=8, tokens=8192)


def trial(rate, *, stall=0.0, cpu_per_step=1e-4, **loader):
    """One that gave so many steps a second, each quick but one in fifty, which took a stall longer."""
    seconds = [1 / rate + (stall if n % 50 == 49 else 0.0) for n in range(200)]
    passed = Passed(seconds=sum(seconds), steps=200.0, batches=200, batch_seconds=seconds)
    return Trial(
        loader=LoaderConfig(**loader),
        passed=passed,
        steps_per_second=rate,
        cpu_seconds=200 * cpu_per_step,
        figures=None,
    )


def tried_of(first, rate_of, need=NEED, most=100):
    """What is tried where each setting gives what `rate_of` says."""
    left = iter(range(most))

    def try_out(loader):
        if next(left, None) is None:
            return None
        told = loader.model_dump(include={"num_threads", "num_workers", "prefetch_factor"})
        return trial(rate_of(loader), **told)

    tried, is_whole = sweep(first, try_out, need, CORES)
    return [in_words(one.loader) for one in tried], is_whole


def test_threads_and_workers_are_added_while_they_bring_something():
    def rate_of(loader):
        return 30.0 * (min(loader.num_workers, 2) or min(loader.num_threads, 4))

    assert tried_of(trial(30, num_threads=1), rate_of, UNTOLD) == (
        [
            "num_threads: 1",
            "num_threads: 2",
            "num_threads: 4",
            "num_threads: 8",
            "num_workers: 1",
            "num_workers: 2",
            "num_workers: 4",
        ],
        True,
    )


def test_what_is_far_from_enough_is_left_behind_in_great_steps():
    names, _ = tried_of(trial(1, num_threads=2), lambda loader: float(loader.num_threads))
    assert names[:4] == ["num_threads: 2", "num_threads: 8", "num_threads: 32", "num_threads: 64"]


def test_what_gives_several_times_the_need_ends_the_search():
    assert tried_of(trial(1000, num_threads=2), lambda loader: 1000.0) == (
        ["num_threads: 2", "num_threads: 1", "num_workers: 1"],
        True,
    )


def test_where_steps_wait_now_and_then_reading_further_ahead_is_tried():
    first = trial(400, stall=0.2, num_threads=2, prefetch_factor=1)

    def try_out(loader):
        told = loader.model_dump(include={"num_threads", "num_workers", "prefetch_factor"})
        return trial(400, stall=0.2, **told)

    tried, _ = sweep(first, try_out, NEED, CORES)
    assert [one.loader.prefetch_factor for one in tried[:3]] == [1, 4, 16]
    assert wait_p99(tried[0], NEED) > 0.1
    assert wait_p99(tried[2], NEED) == 0
    assert choose(tried, NEED, CORES) is tried[2]


def test_a_search_that_the_time_cuts_short_says_so():
    names, is_whole = tried_of(trial(1, num_threads=1), lambda loader: float(loader.num_threads), most=2)
    assert len(names) == 3
    assert not is_whole


def test_the_jobs_own_setting_is_kept_where_it_is_enough():
    own, less = trial(120, num_threads=8), trial(5000, num_threads=1)
    assert choose([own, less], NEED, CORES) is own


def test_else_the_least_that_is_enough_is_taken():
    own = trial(50, num_threads=1)
    enough, more, workers = trial(200, num_threads=4), trial(900, num_threads=8), trial(900, num_workers=1)
    assert choose([own, more, workers, enough], NEED, CORES) is enough


def test_a_setting_that_takes_more_cores_than_all_ranks_have_is_not_enough():
    need = Need(gpus=8, world_size=8, step_seconds=0.01, micro_batches=1, samples=8, tokens=8192)
    costly = trial(1000, num_threads=1, cpu_per_step=0.05)
    light = trial(150, num_workers=2, cpu_per_step=0.005)
    assert choose([costly, light], need, CORES) is light


def test_where_nothing_is_enough_the_most_is_taken_with_the_least_effort():
    tried = [trial(10, num_threads=1), trial(50, num_threads=8), trial(48, num_threads=4), trial(49, num_workers=4)]
    assert choose(tried, NEED, CORES) is tried[2]


@pytest.mark.parametrize(("rate", "kept"), [(75, True), (60, False)])
def test_without_a_step_time_settings_change_only_for_much_more(rate, kept):
    own, better = trial(rate, num_threads=1), trial(100, num_threads=2)
    assert (choose([own, better], UNTOLD, CORES) is own) == kept


def test_only_what_must_change_is_told_at_its_place():
    own = LoaderConfig(num_threads=1, cache_bytes=0)
    assert as_yaml(changed(own, own)) == ""
    assert as_yaml(changed(own, own.model_copy(update={"num_threads": 4}))) == "loader:\n  num_threads: 4"
    with_workers = own.model_copy(update={"num_threads": 8, "num_workers": 2, "prefetch_factor": 16})
    assert changed(own, with_workers) == {"num_workers": 2, "prefetch_factor": 16}


def test_threads_in_the_place_of_workers_leave_out_what_is_about_workers():
    own = LoaderConfig(num_workers=1, persistent_workers=True, multiprocessing_context="spawn")
    seen = []

    def try_out(loader):
        seen.append(loader)

    sweep(Trial(**{**vars(trial(1)), "loader": own}), try_out, UNTOLD, CORES)
    keys = changed(own, seen[0])
    assert keys == {"num_threads": 1, "num_workers": 0, "persistent_workers": False, "multiprocessing_context": None}
    LoaderConfig.model_validate({**own.model_dump(), **keys})
