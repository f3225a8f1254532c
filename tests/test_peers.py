"""The helper that runs official libraries, and what it says when they fail."""

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.peers import PeerError, find_python, run_in_peers


def test_arguments_and_json_go_in_and_the_last_line_comes_back() -> None:
    code = "import sys, json\nprint('noise')\nprint(json.dumps([sys.argv[1:], json.load(sys.stdin)]))"
    assert run_in_peers(code, "one", 2, json_in={"three": 3}) == [["one", "2"], {"three": 3}]


def test_a_script_runs_by_its_path(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(41 + 1)")
    assert run_in_peers(script) == 42


def test_code_that_prints_nothing_gives_none() -> None:
    assert run_in_peers("pass") is None


def test_each_run_has_a_folder_for_temporary_files_that_is_gone_afterwards() -> None:
    code = "import json, os, tempfile; print(json.dumps([tempfile.gettempdir(), os.getcwd()]))"
    first, second = run_in_peers(code), run_in_peers(code)
    assert first[0] == first[1] != second[0]
    assert not Path(first[0]).exists()


def test_a_failure_shows_what_the_code_said() -> None:
    with pytest.raises(PeerError, match=r"(?s)exit status 1.*--- stdout\nbefore\n.*ZeroDivisionError"):
        run_in_peers("print('before'); 1 / 0")


def test_output_that_is_no_json_is_an_error_that_shows_it() -> None:
    with pytest.raises(PeerError, match=r"(?s)no JSON.*--- stdout\nhello\n"):
        run_in_peers("print('hello')")


def test_code_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid))\n"
        "time.sleep(600)"
    )
    with pytest.raises(PeerError, match="not done after 2 s"):
        run_in_peers(code, pid_file, timeout=2)
    assert not is_running(int(pid_file.read_text()), wait_s=10)


def test_a_missing_environment_says_how_to_make_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PEERS_VENV", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=re.escape(f"{tmp_path}/bin/python is missing; run `make setup`")):
        run_in_peers("pass")


def test_the_peers_are_not_in_the_environment_of_the_tests(peers_python: Path) -> None:
    assert peers_python == find_python()
    found = run_in_peers(
        "import importlib.util, json\n"
        "print(json.dumps([n for n in ('streaming', 'webdataset', 'datasets', 'duckdb', 'tokenyard')"
        " if importlib.util.find_spec(n)]))"
    )
    assert found == ["streaming", "webdataset", "datasets", "duckdb"]


def test_a_streaming_dataset_opens() -> None:
    code = (
        "import json, numpy as np, streaming\n"
        "with streaming.MDSWriter(out='corpus', columns={'tokens': 'ndarray:uint16'}) as writer:\n"
        "    writer.write({'tokens': np.arange(3, dtype=np.uint16)})\n"
        "dataset = streaming.StreamingDataset(local='corpus', batch_size=1)\n"
        "print(json.dumps([sample['tokens'].tolist() for sample in dataset]))\n"
    )
    assert run_in_peers(code) == [[0, 1, 2]]


def test_runs_take_turns() -> None:
    code = "import time; start = time.monotonic(); time.sleep(0.3); print([start, time.monotonic()])"
    with ThreadPoolExecutor() as pool:
        runs = sorted(pool.map(lambda _: run_in_peers(code), range(3)))
    assert all(end <= start for (_, end), (start, _) in pairwise(runs))


def is_running(pid: int, wait_s: float) -> bool:
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True
