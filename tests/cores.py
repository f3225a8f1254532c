"""On how many cores a test runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def on_one_core() -> Iterator[None]:
    """This process, and what it begins, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
