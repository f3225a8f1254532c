"""Servers that are processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def server_process(command: Sequence[str], says: str) -> Iterator[int]:
    """Start one, give the port on which it listens, and end it by its own process id.

    says: the pattern of the line that it writes when it listens, whose group is the port.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if found := re.search(says, line):
                break
        else:
            raise RuntimeError(f"{' '.join(command)} did not start:\n" + "".join(lines))
        # Its log of requests has to go somewhere, or it waits for the pipe.
        drain = threading.Thread(target=lambda: [None for _ in process.stdout or ()])
        drain.start()
        try:
            yield int(found.group(1))
        finally:
            process.kill()
            drain.join()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
