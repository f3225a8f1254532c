"""Running tasks: results with their numbers, first error wins, a dead worker is told."""

import os
import signal

import pytest

from tokenyard.converters.executor import run_tasks
from tokenyard.errors import ConfigError, DataError, StorageError


def add(shared, task):
    return shared + task


def fail(shared, task):
    if task == 3:
        raise DataError(f"task {task} of {shared} is bad")
    return task


def die(shared, task):
    del shared, task
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_result_comes_once_with_the_number_of_its_task(workers):
    assert dict(run_tasks(add, 10, [1, 2, 3, 4, 5], workers)) == {0: 11, 1: 12, 2: 13, 3: 14, 4: 15}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_task_is_the_error_of_the_job(workers):
    with pytest.raises(DataError, match="task 3 of it is bad"):
        list(run_tasks(fail, "it", list(range(6)), workers))


def test_a_worker_killed_by_the_system_is_told_as_such():
    with pytest.raises(StorageError, match=r"a worker process died.*fewer workers or smaller shards"):
        list(run_tasks(die, None, [1, 2], 2))


def test_no_workers_are_refused():
    with pytest.raises(ConfigError, match="num_workers must be 1 or more, not 0"):
        list(run_tasks(add, 1, [1], 0))
