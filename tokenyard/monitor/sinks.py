"""Where reports go: a stream, a file of JSON lines, TensorBoard, Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, TextIO

from tokenyard.display.strict_json import strict_json
from tokenyard.errors import StorageError
from tokenyard.monitor.report import Report


class Sink(Protocol):
    """Takes reports."""

    def write(self, report: Report) -> None:
        """Take one."""


class Lines:
    """Lines for people on a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, report: Report) -> None:
        """Write a line, and one more where there is a verdict."""
        self.say(report.line())

    def say(self, text: str) -> None:
        """Write text of ours."""
        self._stream.write(f"[tokenyard] {text}\n")
        self._stream.flush()


class JsonLines:
    """A JSON object a line, appended to a file that lasts as long as nobody needs it open.

    Raises:
        StorageError: the file can't be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._append("")

    def write(self, report: Report) -> None:
        """Append a record."""
        self._append(strict_json(report.record()) + "\n")

    def _append(self, text: str) -> None:
        try:
            with self._path.open("a") as file:
                file.write(text)
        except OSError as e:
            raise StorageError(
                f"can't write the monitor's records to {self._path}: {e.strerror}; give jsonl= another path"
            ) from e


class TensorBoard:
    """Scalars of a `SummaryWriter` of TensorBoard's."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, report: Report) -> None:
        """Add each figure under `tokenyard/`."""
        for name, value in report.scalars().items():
            self._writer.add_scalar(f"tokenyard/{name}", value, report.figures.step)


class WandB:
    """Metrics of a run of Weights & Biases; they go with what the run logs next, since steps there are the run's."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def write(self, report: Report) -> None:
        """Log each figure under `tokenyard/`."""
        named = {f"tokenyard/{name}": value for name, value in report.scalars().items()}
        self._run.log({**named, "tokenyard/step": report.figures.step}, commit=False)
