"""Runs the scripts beside it in the peers' environment, whose libraries judge what we write and read."""

import fcntl
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def run(script: str, *args: object, json_in: Any = None) -> Any:
    """Run ``peer_scripts/<script>`` alone on this machine; returns the JSON in the last line it prints."""
    home = os.environ.get("PEERS_VENV") or HERE.parent.parent / ".venv-peers"
    command = [str(Path(home, "bin/python").absolute()), "-I", str(HERE / "peer_scripts" / script), *map(str, args)]
    with open(f"/tmp/tokenyard-peers-{os.getuid()}.lock", "w") as lock, tempfile.TemporaryDirectory() as temporary:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = {"PATH": os.defpath, "HOME": temporary, "TMPDIR": temporary, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command,
            input=json.dumps(json_in),
            capture_output=True,
            text=True,
            env=environment,
            cwd=temporary,
            timeout=120,
        )
    assert done.returncode == 0, f"{script}: {done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.strip().splitlines()[-1])
