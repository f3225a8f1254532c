"""Errors of our own on their way to the training loop: as values, out of threads and processes, without the way there.

Their messages say all: file, shard, row. The stack of a thread or a worker process adds nothing to that, and several
may meet the same error at once.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

from tokenyard.errors import TokenyardError

T = TypeVar("T")


@dataclass(frozen=True)
class Failure:
    """What comes in place of a batch that can't be had. ``error``: why."""

    error: TokenyardError

    def noted(self, note: str) -> TokenyardError:
        """Return the error to raise, with a note of where it was met, and nothing of how it came about."""
        error = copy(self.error)  # without its traceback and its context, which others may be adding to
        error.__notes__ = [*getattr(self.error, "__notes__", ()), note]
        return error


def attempt(load: Callable[[], T]) -> T | Failure:
    """Return what `load` gives, or the error of ours that it raises. Others, such as a transform's, pass through."""
    try:
        return load()
    except TokenyardError as e:
        return Failure(e)
