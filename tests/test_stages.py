"""Where a thread's time goes is told stage by stage, and only where somebody asks."""

import os
import threading
import time

import pytest

from tokenyard.stages import measured, stage


def busy(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_time_in_a_stage_inside_another_is_the_inner_ones_alone():
    def work():
        with stage("read"):
            time.sleep(0.02)
            with stage("decode"):
                busy(0.05)
            time.sleep(0.02)
        return "done"

    result, times = measured(work)
    assert result == "done"
    assert (times.process, times.thread) == (os.getpid(), threading.get_native_id())
    assert set(times.stages) == {"read", "decode", "tensors"}
    read, decode = times.stages["read"], times.stages["decode"]
    assert read.wall - read.cpu >= 0.03e9
    # Two clocks, of which one may be told to run faster to keep the time of day.
    assert 0.05e9 <= decode.cpu <= 1.01 * decode.wall
    assert read.cpu < decode.cpu


def test_stages_measure_nothing_unless_they_are_asked_and_nothing_after_an_error():
    def work():
        with stage("transform"):
            raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        measured(work)
    with stage("read"):
        pass
    _, times = measured(lambda: None)
    assert set(times.stages) == {"tensors"}


def test_each_thread_has_a_clock_of_its_own():
    found = []

    def other():
        with stage("decode"):
            pass
        found.append(threading.get_native_id())

    def work():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    _, times = measured(work)
    assert set(times.stages) == {"tensors"}
    assert found != [times.thread]
