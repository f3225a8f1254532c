"""The memory of tables keeps what was used last, counts bytes, and survives threads and forks."""

import os
import threading
import time

import numpy as np
import pytest

from tokenyard.datasets.order import Order, place
from tokenyard.permutation.table_cache import TABLES, TableCache


class Squares:
    """Builds arrays and counts how often it had to."""

    def __init__(self) -> None:
        self.built: list[int] = []

    def build(self, n: int) -> np.ndarray:
        self.built.append(n)
        return np.arange(10) * n  # 80 bytes


def test_what_was_built_is_kept() -> None:
    cache, squares = TableCache(max_bytes=800), Squares()
    assert cache.get(squares.build, 3).tolist() == cache.get(squares.build, 3).tolist() == [3 * i for i in range(10)]
    assert squares.built == [3]


def test_many_are_returned_in_the_order_asked() -> None:
    cache, squares = TableCache(max_bytes=800), Squares()
    cache.get(squares.build, 2)
    assert [int(array[1]) for array in cache.get_many([(squares.build, n) for n in (3, 2, 1, 3)])] == [3, 2, 1, 3]


def test_the_least_recently_used_leaves_first() -> None:
    cache, squares = TableCache(max_bytes=160), Squares()
    for n in (1, 2, 1, 3, 1, 2):
        cache.get(squares.build, n)
    assert squares.built == [1, 2, 3, 2]
    assert cache.num_bytes == 160


def test_an_array_larger_than_everything_is_returned_and_drives_nothing_out() -> None:
    cache, squares = TableCache(max_bytes=100), Squares()
    cache.get(squares.build, 1)
    assert cache.get(np.zeros, 1000).size == 1000
    cache.get(squares.build, 1)
    assert squares.built == [1]
    assert cache.num_bytes == 80


def test_room_grows_and_never_shrinks() -> None:
    cache = TableCache(max_bytes=100)
    cache.make_room(500)
    cache.make_room(200)
    assert cache.max_bytes == 500


def test_arrays_that_all_share_are_read_only() -> None:
    array = TableCache(max_bytes=100).get(Squares().build, 1)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_two_threads_that_build_the_same_count_it_once() -> None:
    cache, barrier = TableCache(max_bytes=800), threading.Barrier(2, timeout=10)

    def build(n: int) -> np.ndarray:
        barrier.wait()
        return np.arange(10) * n

    threads = [threading.Thread(target=cache.get, args=(build, 1)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.num_bytes == 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_a_thread_holds_the_memory_goes_on() -> None:
    held, order = threading.Event(), Order(shuffle="global", seed=1, block_samples=1, window_blocks=1, lanes=1)

    def hold() -> None:
        with TABLES.lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        place(order, 100, 0, np.arange(3))
        os._exit(0)
    thread.join()
    deadline = time.monotonic() + 20
    finished, status = 0, 0
    while not finished and time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not finished:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert finished == child
    assert status == 0
