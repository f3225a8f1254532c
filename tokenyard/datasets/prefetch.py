"""Work done ahead by threads of this process, its results in order."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_order(work: Callable[[int], T], count: int, num_threads: int, ahead: int) -> Iterator[T]:
    """Yield `work(0)` to `work(count - 1)`, of which up to `ahead` are done before they are asked for.

    Threads take work and never wait for whoever asks, so there is nothing to hang on: when the iterator is closed, what
    is under way is finished, the rest is left, and the threads are gone. With no threads, work is done when asked for.

    Raises:
        Exception: what `work` raised, at the place of its result, with its own traceback.
    """
    if not num_threads:
        yield from map(work, range(count))
        return
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="tokenyard-loader")
    try:
        begun: deque[Future[T]] = deque(pool.submit(work, i) for i in range(min(ahead, count)))
        for upcoming in range(len(begun), count + len(begun)):
            result = begun.popleft().result()
            if upcoming < count:
                begun.append(pool.submit(work, upcoming))
            yield result
            del result  # while the next one is waited for, only the caller holds it
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
