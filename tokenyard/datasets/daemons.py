"""Threads that a program which ends doesn't wait for, whatever they wait for themselves."""

import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

#: What a program that ends waits for at most: what is under way, but no store that doesn't answer.
_SECONDS_AT_EXIT = 30.0

_Work = tuple[Future[None], Callable[[], None]]


class LoaderThread(threading.Thread):
    """A thread of a loader's, which a program that ends doesn't wait for.

    Whichever thread collects garbage closes iterators that were dropped. One of these must not wait for the others
    then: they may wait for it, or for a lock that it holds.
    """

    def __init__(self, target: Callable[..., None], name: str, args: tuple[Any, ...] = ()) -> None:
        super().__init__(target=target, name=name, args=args, daemon=True)


def may_wait_for_threads() -> bool:
    """Whether this thread is none of a loader's."""
    return not isinstance(threading.current_thread(), LoaderThread)


class _Daemon(LoaderThread):
    """A thread of `Daemons`."""


class Daemons:
    """A line of work, and threads that do it in its order.

    `ThreadPoolExecutor` will not do: Python waits for its threads before it ends, also while an iterator is still held,
    and so for ever for those that wait until the loop goes on.

    Args:
        num_threads: at most; they are started as work comes.
        name: what their names begin with.
    """

    def __init__(self, num_threads: int, name: str) -> None:
        self._num_threads = num_threads
        self._name = name
        self._line: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        _running.add(self)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Have something done after all that was submitted before."""
        future: Future[None] = Future()
        self._line.put((future, work))
        if len(self._threads) < self._num_threads:
            name = f"{self._name}-{len(self._threads)}"
            thread = _Daemon(_work_off, name, (self._line,))
            self._threads.append(thread)
            thread.start()
        return future

    def end(self, seconds: float | None = None) -> None:
        """Leave what was not begun, and wait for what is under way, or so long; a thread of this kind doesn't wait."""
        while True:
            try:
                waiting = self._line.get_nowait()
            except Empty:
                break
            if waiting is not None:
                waiting[0].cancel()
        for _ in self._threads:
            self._line.put(None)
        if isinstance(threading.current_thread(), _Daemon):
            return
        until = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))


def _work_off(line: SimpleQueue[_Work | None]) -> None:
    while (one := line.get()) is not None:
        future, work = one
        if future.set_running_or_notify_cancel():
            try:
                work()
            except BaseException as e:  # noqa: BLE001  # raised where the result is asked for
                future.set_exception(e)
            else:
                future.set_result(None)
        del one, future, work


_running: WeakSet[Daemons] = WeakSet()


@atexit.register
def _end_all() -> None:
    """End the threads of iterators that are still held: a daemon that Python ends in compiled code aborts it."""
    until = time.monotonic() + _SECONDS_AT_EXIT
    for daemons in list(_running):
        daemons.end(max(0.0, until - time.monotonic()))
