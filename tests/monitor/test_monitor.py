"""The monitor leaves batches as they are, reports now and then, and ends without a trace."""

import gc
import io
import os
import re
import subprocess
import sys
import threading
import time
from itertools import islice

import pytest

import tokenyard
from tests.monitor.runs import SEQ_LEN, loader_of, settings, watched, write
from tests.strict import strict
from tokenyard.errors import ConfigError, StorageError
from tokenyard.monitor.collector import Collector, StepTimes
from tokenyard.monitor.sinks import JsonLines
from tokenyard.monitor.system.load import System
from tokenyard.monitor.window import Window


@pytest.fixture(scope="module")
def npy(tmp_path_factory):
    return write(tmp_path_factory.mktemp("monitor") / "npy", rows=1024)


def ids(batches):
    return [batch["sample_ids"].tolist() for batch in batches]


@pytest.mark.parametrize("engine", [{"num_threads": 0}, {"num_threads": 2}, {"num_workers": 1}])
def test_batches_and_the_place_in_the_run_are_those_without_it(npy, engine):
    plain, loader = loader_of(npy, **engine), loader_of(npy, **engine)
    with tokenyard.Monitor(loader, quiet=True) as monitor:
        assert len(monitor) == len(plain) == 64
        assert ids(monitor) == ids(plain)
        assert [ids(step) for step in islice(monitor.steps(), 3)] == [ids(step) for step in islice(plain.steps(), 3)]
        assert loader.state_dict() == plain.state_dict()
        assert loader.step == 64 + 3
    assert ids(loader) == ids(plain)


@pytest.mark.parametrize("engine", [{"num_threads": 0}, {"num_threads": 2}, {"num_workers": 2}])
def test_figures_are_those_of_what_was_done(npy, engine):
    loader = loader_of(npy, transform=lambda sample, rng: sample, **engine)
    with tokenyard.Monitor(loader, every_steps=64, quiet=True) as monitor:
        for _ in monitor:
            time.sleep(0.002)
    (report,) = monitor.reports
    figures = report.figures
    assert (figures.rank, figures.world_size, figures.step) == (0, 1, 63)
    assert (figures.num_steps, figures.num_batches, figures.num_tokens) == (64, 64, 64 * 16 * SEQ_LEN)
    assert figures.compute_ms >= 2
    making = figures.making
    assert making.num_batches == 64
    assert making.num_makers == engine.get("num_workers", engine.get("num_threads"))
    assert making.stages.keys() - {"shared"} == {"read", "transform", "tensors"}
    assert all(taken.cpu > 0 and taken.wall > 0 for taken in making.stages.values())
    assert figures.source.formats == ("npy",)
    assert figures.gpu.unknown == "no CUDA device" or figures.gpu.utilisation is not None
    assert figures.gpu.batch_bytes == 2 * 16 * SEQ_LEN * 8 + 16 * 8


def test_one_long_wait_counts_where_the_window_before_had_one_too(npy):
    def window(waits, **more):
        steps = [StepTimes(i, waited, 0.001, 1, SEQ_LEN, is_first=False) for i, waited in enumerate(waits)]
        return Window(loader=loader, steps=steps, made=[], seconds=sum(waits), **more)

    def wait_ms(window):
        return window.figures(System(), None, "no GPU", Collector()).wait_ms

    loader = loader_of(npy)
    held, fed = [0.0, 1.4, 0.0, 0.0], [0.0] * 100 + [0.001]
    assert (window(held).is_held, window(fed).is_held) == (True, False)
    assert wait_ms(window(held)) == 0
    assert wait_ms(window(held, held_before=True)) == pytest.approx(350)


def test_micro_batches_of_a_step_count_together(npy):
    config = settings(npy, batch=64)
    config["loader"]["micro_batch_size"] = 16
    loader = tokenyard.build_dataloader(config, 0, 1)
    with tokenyard.Monitor(loader, quiet=True) as monitor:
        for _ in monitor.steps():
            pass
    (report,) = monitor.reports
    assert (report.figures.num_steps, report.figures.num_batches) == (16, 64)


def test_it_tells_by_lines_by_records_and_to_tensorboard_and_wandb(npy, tmp_path):
    class Recorder:
        def __init__(self):
            self.scalars, self.logged = [], []

        def add_scalar(self, name, value, step):
            self.scalars.append((name, float(value), step))

        def log(self, values, *, commit):
            self.logged.append((values, commit))

    stream, recorder = io.StringIO(), Recorder()
    loader = loader_of(npy)
    options = {"jsonl": tmp_path / "m.jsonl", "tensorboard": recorder, "wandb": recorder, "stream": stream}
    with tokenyard.Monitor(loader, every_steps=64, **options) as monitor:
        for _ in monitor:
            time.sleep(0.01)
    (report,) = monitor.reports
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("[tokenyard] step 63  ")
    assert "tokens/s  data wait " in lines[0]
    assert lines[-1].startswith("[tokenyard] 64 steps in ")
    assert "s waiting for data" in lines[-1]
    (record,) = map(strict, (tmp_path / "m.jsonl").read_text().splitlines())
    assert record["step"] == 63
    assert record["steps_per_s"] == pytest.approx(64 / report.figures.seconds)
    assert record["making"]["stages"]["read"]["wall"] > 0
    assert ("tokenyard/wait_ms", report.figures.wait_ms, 63) in recorder.scalars
    assert [(values["tokenyard/step"], commit) for values, commit in recorder.logged] == [(63, False)]


def test_a_summary_counts_the_first_step_that_windows_leave_out(npy):
    gate = threading.Event()

    def slow_at_first(sample, rng):
        if not gate.is_set():
            gate.wait(0.3)
            gate.set()
        return sample

    lines = io.StringIO()
    with tokenyard.Monitor(
        loader_of(npy, transform=slow_at_first, num_threads=0), every_steps=6, stream=lines
    ) as monitor:
        for _ in islice(monitor, 7):
            pass
    assert "data wait" in lines.getvalue()
    waited = re.search(
        r"6 steps in . s: (.*) s waiting for data, .*; (.*) s of it in the first step of an iteration, "
        "which windows leave out",
        lines.getvalue(),
    )
    assert float(waited[1]) >= float(waited[2]) >= 0.3
    assert monitor.reports[0].figures.wait_ms < 300


def test_steps_too_few_for_a_window_are_in_the_summary(npy):
    lines = io.StringIO()
    with tokenyard.Monitor(loader_of(npy, num_threads=0), stream=lines) as monitor:
        for _ in islice(monitor, 3):
            pass
    assert not monitor.reports
    assert "[tokenyard] 2 steps in " in lines.getvalue()


def test_a_sink_that_fails_is_told_and_left_and_the_run_goes_on(npy):
    class Gone:
        def add_scalar(self, name, value, step):
            raise ConnectionError("the server is gone")

    stream = io.StringIO()
    with tokenyard.Monitor(loader_of(npy), every_steps=16, tensorboard=Gone(), stream=stream) as monitor:
        for _ in range(3):
            for _ in monitor:
                time.sleep(0.01)
    assert stream.getvalue().count("TensorBoard gets no more reports: the server is gone") == 1
    assert len(monitor.reports) >= 2


def test_it_ends_without_threads_and_the_loader_is_its_own_again(npy):
    loader = loader_of(npy)
    monitor = tokenyard.Monitor(loader, quiet=True)
    next(iter(monitor))
    monitor.close()
    monitor.close()
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tokenyard")]
    assert not monitor.reports
    assert len(ids(loader)) == 64
    assert not monitor.reports


def test_a_program_that_never_closes_it_gets_its_summary(npy):
    program = (
        "import tokenyard\n"
        f"monitor = tokenyard.Monitor(tokenyard.build_dataloader({settings(npy)!r}, 0, 1))\n"
        "for batch in monitor: pass\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "[tokenyard] 64 steps in " in done.stderr.splitlines()[-1] or "    in 1 of 1 windows" in done.stderr


def test_what_fails_while_reading_reaches_the_loop_through_it(npy):
    def broken(sample, rng):
        raise ValueError("no such sample")

    with (
        tokenyard.Monitor(loader_of(npy, transform=broken), quiet=True) as monitor,
        pytest.raises(ValueError, match="no such sample"),
    ):
        next(iter(monitor))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every_seconds": 1, "every_steps": 1}, "every_seconds and every_steps are both given; keep one"),
        ({"every_steps": 0}, "every_steps: expected a positive number, found 0; leave it out for 30 seconds"),
        ({"every_seconds": -1.0}, "every_seconds: expected a positive number, found -1.0"),
    ],
)
def test_intervals_that_make_no_sense_are_refused(npy, options, message):
    with pytest.raises(ConfigError, match=message):
        tokenyard.Monitor(loader_of(npy), **options)


def test_a_file_that_cannot_be_written_is_told_at_once(npy, tmp_path):
    with pytest.raises(StorageError, match=r"can't write the monitor's records to .*nowhere.*; give jsonl= another"):
        tokenyard.Monitor(loader_of(npy), jsonl=tmp_path / "nowhere" / "m.jsonl")
    JsonLines(tmp_path / "m.jsonl")


def test_windows_go_on_over_epochs(npy):
    reports = watched(loader_of(npy), 0.001, seconds=0.3, is_seen=lambda reports: reports[0].figures.step > 64)
    assert reports[-1].figures.step > 64
    assert all(report.figures.num_steps >= 4 for report in reports)
