"""Other libraries, each in a process of its own in the peers' environment, asked in turn for its rate.

A peer writes the tokens by its own writer, opens them, and then takes batches whenever it is asked, for as long as it
is asked; between, it waits. Which peers there are is the files of `peer_scripts/`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.timing import Contender

_SCRIPTS = Path(__file__).parent / "peer_scripts"
_REPOSITORY = Path(__file__).parent.parent
#: Two of these that open at the same moment take each other's shared memory.
_OPENS_ALONE = "StreamingDataset"


class PeerError(Exception):
    """A peer ended, with what it said."""


def find_python() -> Path | None:
    """The Python in the environment that `PEERS_VENV` names, else in `.venv-peers`; None where there is none."""
    python = Path(os.environ.get("PEERS_VENV") or _REPOSITORY / ".venv-peers") / "bin" / "python"
    return python.absolute() if python.exists() else None


def installed(names: list[str]) -> list[str]:
    """Which of some peers can be run here: all libraries that they import are in the peers' environment."""
    python = find_python()
    if python is None:
        return []
    found = subprocess.run(
        [str(python), "-I", str(_SCRIPTS / "serve.py"), "--installed", *names], check=True, capture_output=True
    )
    return list(json.loads(found.stdout))


@contextlib.contextmanager
def peer(name: str, rows: Path, folder: Path, **options: Any) -> Iterator[Contender]:
    """A peer that has given its first batch. At the end of the block its process has ended.

    Args:
        name: of a peer in `peer_scripts/`.
        rows: a .npy file of uint16[rows, seq_len], or for documents of uint16[tokens], with ``lengths.npy`` beside it.
        folder: where it keeps what it writes, to be found again by the next process.
        **options: ``batch_size``, ``num_workers``, ``seq_len``.

    Raises:
        PeerError: it can't be imported, it fails, or it gives other tokens than it was given.
    """
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="peer-"))
        said = stack.enter_context(tempfile.TemporaryFile("w+"))
        process = subprocess.Popen(
            [str(find_python() or sys.executable), "-I", str(_SCRIPTS / "serve.py"), name, str(rows), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=temporary,
            env=_environment(temporary),
            start_new_session=True,
        )
        stack.callback(_end, process)

        def ask(question: Any) -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
                return float(json.loads(process.stdout.readline()))
            except (BrokenPipeError, ValueError):
                process.wait(timeout=10)
                said.seek(0)
                raise PeerError(f"{name} ended with status {process.returncode}:\n{said.read()[-4000:]}") from None

        with _turn() if name.startswith(_OPENS_ALONE) else contextlib.nullcontext():
            ask(options)
        yield ask


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """One at a time on this machine, tests among them, which wait at the same file."""
    with open(Path(tempfile.gettempdir()) / f"tokenyard-peers-{os.getuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _environment(temporary: str) -> dict[str, str]:
    own = {"HOME": temporary, "TMPDIR": temporary, "HF_HOME": temporary, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **own}


def _end(process: subprocess.Popen[str]) -> None:
    """End it and its children: by telling it, so that it can remove its shared memory; else by force.

    The end of its input alone may not reach it: workers that this process has forked have its other end, too.
    """
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("null\n")
            process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    if process.stdout is not None:
        process.stdout.close()
