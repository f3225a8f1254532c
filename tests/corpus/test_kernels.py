"""Compiled loops where numba can't work as it should: each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from tokenyard.corpus import casts, compiling, finding, kernels, numbering, records, row_starts
from tokenyard.datasets import spans

GATHER = """
import sys
from pathlib import Path
import numpy as np
import tokenyard
path = Path(sys.argv[1]) / "corpus"
with tokenyard.CorpusWriter(path, format="npy", schema=tokenyard.Schema(token_dtype="uint16")) as writer:
    writer.write([1, 2, 3])
print(tokenyard.open_corpus(path).gather_rows(np.array([0]))[0].tolist())
"""

FORK_DURING_IMPORT = """
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
import numpy as np
import tokenyard
path = Path(sys.argv[1]) / "corpus"
with tokenyard.CorpusWriter(path, format="npy", schema=tokenyard.Schema(token_dtype="uint16")) as writer:
    writer.write([1, 2, 3])
corpus = tokenyard.open_corpus(path)
def gather():
    # Two processes write at once: a line by one call, with its end.
    os.write(1, f"{corpus.gather_rows(np.array([0]))[0].tolist()}\\n".encode())
thread = threading.Thread(target=gather)
thread.start()
while "numba" not in sys.modules:
    time.sleep(0.001)
child = multiprocessing.get_context("fork").Process(target=gather, daemon=True)
child.start()
child.join(60)
thread.join()
sys.exit(child.exitcode != 0)
"""


def gather(folder: Path, script: str = GATHER, **environment: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-W", "always", "-c", script, str(folder)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)


def test_a_damaged_cache_costs_time_and_is_told(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    whole = gather(tmp_path / "first", NUMBA_CACHE_DIR=str(cache))
    assert (whole.stdout, whole.returncode) == ("[1, 2, 3]\n", 0)
    files = list(cache.rglob("*row_offsets*.nbi"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:100])
    damaged = gather(tmp_path / "second", NUMBA_CACHE_DIR=str(cache))
    assert (damaged.stdout, damaged.returncode) == ("[1, 2, 3]\n", 0)
    assert "set NUMBA_CACHE_DIR to an empty folder that can be written" in damaged.stderr


def test_python_in_place_of_compiled_loops_is_refused(tmp_path: Path) -> None:
    refused = gather(tmp_path / "first", NUMBA_DISABLE_JIT="1")
    assert refused.returncode == 1
    assert "NUMBA_DISABLE_JIT is set, but tokens are gathered by compiled loops; unset it" in refused.stderr


def test_a_process_forked_while_a_thread_imports_the_loops_gathers_too(tmp_path: Path) -> None:
    found = gather(tmp_path / "first", FORK_DURING_IMPORT)
    assert (found.stdout, found.stderr, found.returncode) == ("[1, 2, 3]\n" * 2, "", 0)


@pytest.mark.parametrize("loops", [kernels, row_starts, spans])
def test_files_of_loops_name_the_contents_of_what_they_are_made_of(loops: Any) -> None:
    """numba's cache sees changes of the loops' own file alone, and would go on with code of the parts as they were."""
    contents = b"".join(Path(part.__file__).read_bytes() for part in (records, compiling, casts, finding, numbering))
    expected = blake3(contents).hexdigest()[:16]
    assert expected == loops.PARTS, f"{loops.__file__}: write PARTS = {expected!r}"
