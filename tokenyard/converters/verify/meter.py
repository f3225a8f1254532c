"""The progress of a verification, over all that has to be read."""

from __future__ import annotations

import time

from tokenyard.converters.job import OnProgress, Progress


class Meter:
    """Adds up rows and tokens, and tells them. ``total``: tokens to go through, set as it becomes known."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._tell = on_progress
        self._begun = time.monotonic()
        self._rows = self._tokens = 0
        self.total = 0

    def add(self, rows: int, tokens: int) -> None:
        """Some more are done."""
        self._rows, self._tokens = self._rows + rows, self._tokens + tokens
        if self._tell:
            seconds = time.monotonic() - self._begun
            self._tell(
                Progress(
                    rows=self._rows, tokens=self._tokens, bytes=0, unit="tokens", total=self.total, seconds=seconds
                )
            )
