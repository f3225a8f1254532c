"""What a loader tells whoever watches it, such as a `tokenyard.Monitor`."""

from collections.abc import Generator
from typing import Protocol

from torch import Tensor

from tokenyard.datasets.sampler import Request
from tokenyard.stages import BatchTimes

Given = Generator[tuple[Request, dict[str, Tensor]]]


class Watcher(Protocol):
    """Sees batches as the training loop asks for them, and what each took to make. Called in any thread."""

    def passing(self, batches: Given) -> Given:
        """Yield the batches of an epoch as they are, and close `batches` when closed itself."""

    def made(self, times: BatchTimes) -> None:
        """Take note of what a batch took that a thread or a worker process made."""
