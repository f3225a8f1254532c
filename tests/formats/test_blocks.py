"""What formats put aside between calls: a bounded number of values, each gone with its owner."""

import gc
import os
import weakref

from tokenyard.formats.shared.blocks import Recent


class Owner:
    """Stands for a reader."""


class Kept:
    """A value that can be watched."""


def test_a_value_is_taken_once_and_by_its_owner_alone() -> None:
    recent: Recent[Kept] = Recent()
    mine, other, value = Owner(), Owner(), Kept()
    recent.put(mine, 0, value)
    assert recent.take(other, 0) is None
    assert recent.take(mine, 1) is None
    assert recent.take(mine, 0) is value
    assert recent.take(mine, 0) is None


def test_values_go_with_their_owner() -> None:
    recent: Recent[Kept] = Recent()
    owner, value = Owner(), Kept()
    recent.put(owner, 0, value)
    watched = weakref.ref(value)
    del value
    assert watched() is not None
    del owner
    gc.collect()
    assert watched() is None
    for _ in range(20):  # what is left of the owner makes place
        recent.put(Owner(), 0, Kept())


def test_the_one_put_aside_the_longest_ago_is_closed() -> None:
    closed: list[int] = []
    recent: Recent[int] = Recent(closed.append)
    owners = [Owner() for _ in range(4)]
    for i in range(10):
        recent.put(owners[i % 4], i // 4, i)
    assert closed == [0, 1]
    recent.put(owners[2], 0, 12)
    assert closed == [0, 1, 2]
    assert recent.take(owners[3], 0) == 3
    recent.put(owners[0], 0, 20)
    assert closed == [0, 1, 2]


def test_a_child_process_begins_with_nothing() -> None:
    recent: Recent[int] = Recent()
    owner = Owner()
    recent.put(owner, 0, 1)
    recent._lock.acquire()  # as another thread of the parent might
    child = os.fork()
    if not child:
        os._exit(0 if recent.take(owner, 0) is None else 1)
    recent._lock.release()
    assert os.waitpid(child, 0)[1] == 0
    assert recent.take(owner, 0) == 1
