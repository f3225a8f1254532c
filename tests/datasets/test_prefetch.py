import threading
import time

import pytest

from tokenyard.datasets.prefetch import in_order


def loader_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("tokenyard-loader")]


@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_results_come_in_order_however_long_each_takes(num_threads):
    def work(i):
        time.sleep(0.002 * (i % 3))
        return i

    assert list(in_order(work, range(30), num_threads, 6)) == [(i, i) for i in range(30)]
    assert list(in_order(work, [], num_threads, 6)) == []
    assert not loader_threads()


def test_no_more_is_done_ahead_than_asked_for():
    done = []
    results = in_order(lambda i: done.append(i) or i, range(100), 2, 4)
    for taken in range(5):
        assert next(results) == (taken, taken)
        deadline = time.monotonic() + 10
        while len(done) < taken + 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert sorted(done) == list(range(taken + 5))
    results.close()


def test_leaving_early_ends_the_threads_at_once():
    begun = threading.Event()

    def work(i):
        begun.set()
        return i

    for _, result in in_order(work, range(10**9), 4, 16):
        if result == 3:
            break
    assert begun.is_set()
    assert not loader_threads()


@pytest.mark.parametrize("num_threads", [0, 2])
def test_an_exception_arrives_at_its_place_with_its_cause(num_threads):
    def work(i):
        if i == 3:
            raise KeyError("third") from OSError("disk")
        return i

    results = in_order(work, range(10), num_threads, 8)
    assert [next(results) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(KeyError, match="third") as caught:
        next(results)
    assert isinstance(caught.value.__cause__, OSError)
    assert not loader_threads()


def test_without_threads_nothing_is_done_before_it_is_asked_for():
    done = []
    results = in_order(lambda i: done.append(i), range(5), 0, 0)
    next(results)
    assert done == [0]


@pytest.mark.parametrize("num_threads", [0, 2])
def test_an_exception_of_the_requests_comes_after_the_results_before_it(num_threads):
    def requests():
        yield from range(3)
        raise KeyError("no more")

    results = in_order(str, requests(), num_threads, 8)
    assert [next(results) for _ in range(3)] == [(0, "0"), (1, "1"), (2, "2")]
    with pytest.raises(KeyError, match="no more"):
        next(results)
    assert not loader_threads()


def test_requests_that_wait_hold_up_no_result_that_is_done():
    may_go_on = threading.Event()

    def requests():
        yield from range(4)
        assert may_go_on.wait(60)
        yield 4

    results = in_order(str, requests(), 2, 4)
    assert [next(results) for _ in range(4)] == [(i, str(i)) for i in range(4)]
    may_go_on.set()
    assert list(results) == [(4, "4")]


@pytest.mark.parametrize("taken", [0, 1])
def test_leaving_ends_requests_that_wait_and_closes_them_in_their_own_thread(taken):
    left = threading.Event()
    closed_in = []

    def requests():
        try:
            yield from range(4)
            assert left.wait(60)
        finally:
            closed_in.append(threading.current_thread().name)

    results = in_order(str, requests(), 1, 4, left.set)
    next(results)
    for _ in range(taken):
        next(results)
    results.close()
    assert left.is_set()
    assert closed_in == ["tokenyard-loader-requests"]
    assert not loader_threads()
