"""Run a command that prints JSON, in a process of its own and with an end to the waiting."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenyard.errors import BenchmarkError

_SHOWN_LINES = 12
_GRACE_S = 5.0


def run_json(
    command: Sequence[str], *, what: str, folder: Path, deadline_s: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a command in ``folder``, and return the JSON object that its last line of output says.

    Raises BenchmarkError, by the name ``what``, when it fails, takes longer than ``deadline_s``, or prints no JSON
    object; after an interrupt, or too long a time, it and its children are ended.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=folder,
            env=None if environment is None else dict(environment),
            start_new_session=True,
        )
    except OSError as e:
        raise BenchmarkError(f"{what}: {command[0]} can't be run: {e.strerror or e}") from e
    try:
        stdout, stderr = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        _end(process)
        raise BenchmarkError(
            f"{what}: not done after {deadline_s:g} s; measure fewer tokens, or leave it out"
        ) from None
    except BaseException:
        _end(process)
        raise
    if process.returncode:
        said = "\n".join((stderr or stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise BenchmarkError(f"{what}: ended with status {process.returncode}; the last that it said:\n{said}")
    last = (stdout.strip().splitlines() or [""])[-1]
    try:
        found = json.loads(last)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BenchmarkError(f"{what}: expected a JSON object as the last line of output, found {last!r:.200}")
    if "error" in found:
        raise BenchmarkError(f"{what}: {found['error']}")
    return found


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and its children: an interrupt first, so that they can tidy up."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_GRACE_S)
            return
