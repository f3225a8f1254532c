"""Runs code in the peers' environment: the official libraries, which judge what tokenyard writes and reads.

Each run is a process of its own, with a folder of its own for temporary files, because a `StreamingDataset` leaves
locks there and one process can't hold two. Results come back as JSON, the last line that the code prints.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent


class PeerError(AssertionError):
    """The code failed, took too long, or printed no JSON."""


def find_python() -> Path:
    """The Python in the environment that `PEERS_VENV` names, else in `.venv-peers`."""
    python = Path(os.environ.get("PEERS_VENV") or REPOSITORY / ".venv-peers") / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"no peers' environment: {python} is missing; run `make setup`, or set PEERS_VENV")
    return python.absolute()


def run_in_peers(
    script_or_code: Path | str, *args: object, json_in: Any = None, timeout: float = 120, alone: bool = True
) -> Any:
    """Run a script (a Path) or code (a str) in the peers' environment, and return the JSON it prints last.

    Args:
        script_or_code: the path of a script, or code.
        *args: what the code finds in `sys.argv[1:]`, as strings.
        json_in: what the code finds on its standard input, as JSON.
        timeout: the seconds it may take; waiting for its turn doesn't count.
        alone: whether to wait until no other such run is going on, on this machine. Two processes that open a
            `StreamingDataset` at the same moment take each other's shared memory; runs without one may say False.

    Returns:
        What the last line of output says; None if nothing was printed.

    Raises:
        PeerError: with all that was printed.
    """
    code = ["-c", script_or_code] if isinstance(script_or_code, str) else [str(script_or_code.absolute())]
    command = [str(find_python()), "-I", *code, *map(str, args)]
    with contextlib.ExitStack() as stack:
        if alone:
            stack.enter_context(one_at_a_time())
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="peers-"))
        process = stack.enter_context(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=temporary,
                env=_environment(temporary),
                start_new_session=True,
            )
        )
        try:
            stdout, stderr = process.communicate(json.dumps(json_in), timeout=timeout)
        except BaseException as error:
            stdout, stderr = _stop(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PeerError(_report(f"not done after {timeout:g} s", command, stdout, stderr)) from None
            raise
    if process.returncode != 0:
        raise PeerError(_report(f"exit status {process.returncode}", command, stdout, stderr))
    if not stdout.strip():
        return None
    try:
        return json.loads(stdout.strip().splitlines()[-1])
    except json.JSONDecodeError as error:
        raise PeerError(_report(f"the last line printed is no JSON ({error})", command, stdout, stderr)) from None


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """One at a time on this machine, whatever checkout or test worker asks: shared memory has names, not owners."""
    with open(Path(tempfile.gettempdir()) / f"tokenyard-peers-{os.getuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _environment(temporary: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": temporary,
        "TMPDIR": temporary,
        "HF_HOME": temporary,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


def _stop(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End it and its children. An interrupt first, so that it can remove its shared memory."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=5)
    return "", ""


def _report(what: str, command: list[str], stdout: str, stderr: str) -> str:
    parts = {"command": " ".join(command), "stdout": stdout, "stderr": stderr}
    return "\n".join(
        [f"in the peers' environment: {what}", *(f"--- {title}\n{text.rstrip()}" for title, text in parts.items())]
    )
