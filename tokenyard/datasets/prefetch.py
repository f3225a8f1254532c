"""Work done ahead by threads of this process, its results in order."""

import atexit
import time
from collections.abc import Callable, Generator, Iterable
from itertools import cycle
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from tokenyard.datasets.daemons import LoaderThread, may_wait_for_threads

S = TypeVar("S")
T = TypeVar("T")

#: What a program that ends waits for at most: what is under way, but no disk that doesn't answer.
_SECONDS_AT_EXIT = 30.0


def in_order(
    work: Callable[[S], T],
    requests: Iterable[S],
    num_threads: int,
    ahead: int,
    leave: Callable[[], None] = lambda: None,
) -> Generator[tuple[S, T]]:
    """Yield each request with its result, of which up to `ahead` are done before they are asked for.

    One more thread takes the requests, so that whoever asks for results does nothing but that: what requests cost, and
    what they wait for, is not waited for as long as results are ahead.

    Threads take turns, and never wait for whoever asks, so there is nothing to hang on: when the iterator is closed,
    what is under way is finished, the rest is left, and the threads are gone. With no threads, requests are taken and
    work is done when asked for.

    Args:
        work: what makes a result of a request.
        requests: taken by one thread, which closes them if they are a generator.
        num_threads: that work.
        ahead: results.
        leave: called from another thread when the iterator is closed, so that requests which wait do so no more.

    Raises:
        Exception: what `work` or `requests` raised, at the place of its result, with its own traceback.
    """
    if not num_threads:
        try:
            for request in requests:
                yield request, work(request)
        finally:
            _close(requests)
        return
    workers: list[_Worker[S, T]] = []
    taker: _Taker[S, T] | None = None
    try:
        workers += (_Worker(work, number) for number in range(num_threads))
        taker = _Taker(workers, requests, leave)
        for _ in range(ahead):
            taker.take_one()
        while (begun := taker.begun.get()) is not None:
            request, results = begun
            result, error = results.get()
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame
            taker.take_one()
            yield request, result
            del result  # while the next one is waited for, only the caller holds it
    finally:
        running: list[_Worker[S, T] | _Taker[S, T]] = [*workers, *([] if taker is None else [taker])]
        for one in running:
            one.stop()
        for one in running if may_wait_for_threads() else ():
            one.thread.join()


def _close(requests: Iterable[Any]) -> None:
    """End requests now: else they would last as long as somebody holds the traceback of an error."""
    if isinstance(requests, Generator):
        requests.close()


class _Taker(Generic[S, T]):
    """A thread that takes requests and hands each to the next worker, and a line of those that it handed over.

    In the line stands each request, with where its result will come; what `requests` raises comes in its turn. At its
    end stands None.
    """

    def __init__(self, workers: "list[_Worker[S, T]]", requests: Iterable[S], leave: Callable[[], None]) -> None:
        self.begun: SimpleQueue[tuple[Any, SimpleQueue[Any]] | None] = SimpleQueue()
        self._workers = workers
        self._requests = requests
        self._leave = leave
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._stopped = False
        self.thread = LoaderThread(self._run, "tokenyard-loader-requests")
        self.thread.start()
        _running.add(self)

    def take_one(self) -> None:
        """Let one more request be taken."""
        self._wanted.put(True)

    def stop(self) -> None:
        """Let the thread end after the request that it is at."""
        self._stopped = True
        self._wanted.put(False)
        self._leave()

    def _run(self) -> None:
        try:
            requests = iter(self._requests)
            for worker in cycle(self._workers):
                if not self._wanted.get() or self._stopped:
                    break
                request = next(requests)
                worker.requests.put(request)
                self.begun.put((request, worker.results))
                del request
        except StopIteration:
            pass
        except BaseException as e:  # noqa: BLE001  # raised where the result is asked for
            failed: SimpleQueue[Any] = SimpleQueue()
            failed.put((None, e))
            self.begun.put((None, failed))
        finally:
            _close(self._requests)
            self.begun.put(None)


class _Worker(Generic[S, T]):
    """A thread with a line of requests and a line of results, each with the exception in its place if there was one."""

    def __init__(self, work: Callable[[S], T], number: int) -> None:
        self.requests: SimpleQueue[S | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._work = work
        self._stopped = False
        # A program that ends in the middle of an epoch doesn't wait for what nobody will ask for.
        self.thread = LoaderThread(self._run, f"tokenyard-loader-{number}")
        self.thread.start()
        _running.add(self)

    def stop(self) -> None:
        """Let the thread end after what is under way."""
        self._stopped = True
        self.requests.put(None)

    def _run(self) -> None:
        while (request := self.requests.get()) is not None and not self._stopped:
            try:
                self.results.put((self._work(request), None))
            except BaseException as e:  # noqa: BLE001  # raised where the result is asked for
                self.results.put((None, e))
            del request


_running: WeakSet[_Worker[Any, Any] | _Taker[Any, Any]] = WeakSet()


@atexit.register
def _end_all() -> None:
    """End the threads of iterators that are still held, before Python does.

    It ends a daemon where it takes the GIL again, and in the middle of compiled code that aborts the process, whatever
    its exit status was to be.
    """
    running = list(_running)
    for one in running:
        one.stop()
    until = time.monotonic() + _SECONDS_AT_EXIT
    for one in running:
        one.thread.join(max(0.0, until - time.monotonic()))
