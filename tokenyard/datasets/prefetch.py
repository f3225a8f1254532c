"""Work done ahead by threads of this process, its results in order."""

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import cycle, islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

S = TypeVar("S")
T = TypeVar("T")

#: What a program that ends waits for at most: what is under way, but no disk that doesn't answer.
_SECONDS_AT_EXIT = 30.0


def in_order(work: Callable[[S], T], requests: Iterable[S], num_threads: int, ahead: int) -> Generator[tuple[S, T]]:
    """Yield each request with its result, of which up to `ahead` are done before they are asked for.

    Threads take turns, and never wait for whoever asks, so there is nothing to hang on: when the iterator is closed,
    what is under way is finished, the rest is left, and the threads are gone. With no threads, work is done when asked
    for.

    Raises:
        Exception: what `work` or `requests` raised, at the place of its result, with its own traceback.
    """
    if not num_threads:
        for request in requests:
            yield request, work(request)
        return
    workers: list[_Worker[S, T]] = []
    try:
        workers += (_Worker(work, number) for number in range(num_threads))
        upcoming = _begun(workers, requests)
        begun = deque(islice(upcoming, ahead))
        while begun:
            request, results = begun.popleft()
            result, error = results.get()
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame
            begun.extend(islice(upcoming, 1))
            yield request, result
            del result  # while the next one is waited for, only the caller holds it
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
        if isinstance(requests, Generator):
            requests.close()  # else it would last as long as somebody holds the traceback of an error


class _Worker(Generic[S, T]):
    """A thread with a line of requests and a line of results, each with the exception in its place if there was one."""

    def __init__(self, work: Callable[[S], T], number: int) -> None:
        self.requests: SimpleQueue[S | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._work = work
        self._stopped = False
        # A program that ends in the middle of an epoch doesn't wait for what nobody will ask for.
        self._thread = threading.Thread(target=self._run, name=f"tokenyard-loader-{number}", daemon=True)
        self._thread.start()
        _running.add(self)

    def stop(self) -> None:
        """Let the thread end after what is under way."""
        self._stopped = True
        self.requests.put(None)

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end, or so long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while (request := self.requests.get()) is not None and not self._stopped:
            try:
                self.results.put((self._work(request), None))
            except BaseException as e:  # noqa: BLE001  # raised where the result is asked for
                self.results.put((None, e))
            del request


_running: WeakSet[_Worker[Any, Any]] = WeakSet()


@atexit.register
def _end_all() -> None:
    """End the threads of iterators that are still held, before Python does.

    It ends a daemon where it takes the GIL again, and in the middle of compiled code that aborts the process, whatever
    its exit status was to be.
    """
    workers = list(_running)
    for worker in workers:
        worker.stop()
    until = time.monotonic() + _SECONDS_AT_EXIT
    for worker in workers:
        worker.join(max(0.0, until - time.monotonic()))


def _begun(workers: list[_Worker[S, T]], requests: Iterable[S]) -> Iterator[tuple[Any, SimpleQueue[Any]]]:
    """Yield each request with where its result will come; where `requests` itself raises, that comes in its turn."""
    try:
        for worker, request in zip(cycle(workers), requests, strict=False):
            worker.requests.put(request)
            yield request, worker.results
    except Exception as e:  # noqa: BLE001  # raised where the result is asked for
        failed: SimpleQueue[Any] = SimpleQueue()
        failed.put((None, e))
        yield None, failed
