"""Values that are made when they are first asked for: once, in threads and across forks."""

import multiprocessing
import threading

import pytest

from tokenyard.cached import cached_property


class Made:
    """Its value is made when `go` is set; `begun` tells that somebody asked for it."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.num_made = 0

    @cached_property
    def value(self) -> list[int]:
        """What it is."""
        self.begun.set()
        assert self.go.wait(60)
        self.num_made += 1
        return [self.num_made]


def test_a_value_is_made_once_and_kept() -> None:
    made, other = Made(), Made()
    made.go.set()
    other.go.set()
    assert made.value == [1]
    assert made.value is made.value
    assert other.value is not made.value
    assert made.num_made == other.num_made == 1
    assert Made.__dict__["value"].__doc__ == "What it is."


def test_threads_that_make_a_value_at_once_get_the_same() -> None:
    made, found = Made(), []
    threads = [threading.Thread(target=lambda: found.append(made.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    made.go.set()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(value is made.value for value in found)


def test_objects_do_not_wait_for_each_other() -> None:
    slow, quick = Made(), Made()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.begun.wait(60)
    quick.go.set()
    assert quick.value == [1]
    assert slow.num_made == 0
    slow.go.set()
    thread.join()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_a_thread_makes_a_value_makes_its_own() -> None:
    slow, quick = Made(), Made()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.begun.wait(60)
    quick.go.set()
    child = multiprocessing.get_context("fork").Process(target=lambda: quick.value, daemon=True)
    child.start()
    child.join(30)
    found = child.exitcode
    child.kill()
    slow.go.set()
    thread.join()
    assert found == 0
