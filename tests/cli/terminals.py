"""Commands run on a terminal of their own."""

import os
import pty
import subprocess
import sys


def command(*arguments):
    """The command line of `tokenyard` with arguments."""
    return [sys.executable, "-m", "tokenyard", *map(str, arguments)]


def on_a_terminal(*arguments, stream="stdout", **environment):
    """What a command writes to a stream that is a terminal of 256 colors and 200 columns."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", **environment}
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
    process = subprocess.Popen(command(*arguments), env=env, **streams)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            shown += chunk
    except OSError:  # how Linux says that nobody writes any more
        pass
    finally:
        os.close(ours)
    assert process.wait(120) == 0
    return shown.decode()
