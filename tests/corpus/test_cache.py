"""The cache of extent tables: bounded, each value made once, and none lost to whoever holds it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tokenyard.corpus.cache import BoundedCache


def get(cache: BoundedCache[str], key: int, cost: int = 1) -> str:
    return cache.get(key, lambda: f"value {key}", lambda _: cost)


def made(cache: BoundedCache[str], keys: list[int]) -> list[int]:
    """Which of these keys the cache has to make."""
    found = []
    for key in keys:
        cache.get(key, lambda key=key: found.append(key) or f"value {key}", lambda _: 1)
    return found


def test_values_used_last_are_kept_up_to_their_number() -> None:
    cache: BoundedCache[str] = BoundedCache(100, 3)
    for key in (1, 2, 3, 1, 4):
        assert get(cache, key) == f"value {key}"
    assert len(cache) == 3
    assert made(cache, [1, 3, 4]) == []
    assert made(cache, [2]) == [2]


def test_values_are_kept_up_to_their_cost() -> None:
    cache: BoundedCache[str] = BoundedCache(10, 100)
    for key in range(20):
        get(cache, key, 3)
        assert cache.cost <= 10
    assert (len(cache), cache.cost) == (3, 9)


def test_the_newest_value_is_kept_whatever_it_costs() -> None:
    cache: BoundedCache[str] = BoundedCache(10, 100)
    for key in range(3):
        get(cache, key, 50)
        assert (len(cache), cache.cost) == (1, 50)
        assert made(cache, [key]) == []


def test_a_value_is_made_once_for_all_threads_that_ask() -> None:
    cache: BoundedCache[str] = BoundedCache(100, 100)
    calls = []
    ready = threading.Barrier(8)

    def make() -> str:
        calls.append(threading.get_ident())
        time.sleep(0.05)
        return "value"

    def ask() -> str:
        ready.wait(10)
        return cache.get(1, make, lambda _: 1)

    with ThreadPoolExecutor(8) as pool:
        assert {f.result(30) for f in [pool.submit(ask) for _ in range(8)]} == {"value"}
    assert len(calls) == 1


def test_an_error_reaches_all_who_wait_and_the_next_one_tries_again() -> None:
    cache: BoundedCache[str] = BoundedCache(100, 100)
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> str:
        begun.set()
        go_on.wait(10)
        raise OSError("once")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(cache.get, 1, fail, lambda _: 1)
        begun.wait(10)
        others = [pool.submit(cache.get, 1, lambda: "other", lambda _: 1) for _ in range(2)]
        time.sleep(0.05)
        go_on.set()
        for future in (first, *others):
            with pytest.raises(OSError, match="once"):
                future.result(10)
    assert (len(cache), cache.cost) == (0, 0)
    assert get(cache, 1) == "value 1"


def test_an_error_in_telling_the_cost_is_one_in_making() -> None:
    cache: BoundedCache[str] = BoundedCache(100, 100)
    with pytest.raises(ZeroDivisionError):
        cache.get(1, lambda: "value", lambda _: 1 // 0)
    assert get(cache, 1) == "value 1"


def test_what_is_being_made_is_not_dropped() -> None:
    cache: BoundedCache[str] = BoundedCache(2, 2)
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> str:
        begun.set()
        go_on.wait(10)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(cache.get, 0, slowly, lambda _: 1)
        begun.wait(10)
        for key in range(1, 9):
            get(cache, key)
        waiting = pool.submit(cache.get, 0, lambda: "made again", lambda _: 1)
        go_on.set()
        assert (slow.result(10), waiting.result(10)) == ("slow", "slow")


def test_the_cost_is_right_after_any_race_of_threads() -> None:
    cache: BoundedCache[int] = BoundedCache(7, 5)

    def many(seed: int) -> None:
        for i in range(400):
            key = (i * seed) % 11
            assert cache.get(key, partial(int, key), lambda value: value % 3 + 1) == key

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(many, seed) for seed in range(1, 9)]:
            future.result(60)
    assert cache.cost <= 7
    assert len(cache) <= 5
    assert cache.cost == sum(e.future.result() % 3 + 1 for e in cache._entries.values())
