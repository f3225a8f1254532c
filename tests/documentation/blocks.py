"""The blocks of code in a Markdown page, and a way to run them one after another, as a reader would."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.peers import find_python, run_in_peers
from tokenyard.config import load_config

_IN_PEERS = "<!-- in the peers' environment -->"
_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
#: What sets up an environment (`make check test` runs in one), and what measures for long.
_NOT_RUN = ("make ", "pip install ", "python benchmarks/", "cd ", "git clone ")
#: What would take minutes is run with less to do: these options go, and those come.
_MORE = re.compile(r" --(formats|rounds|seconds) +\S+| --no-cold\b")
_LESS = " --formats npy,parquet --rounds 1 --seconds 0.05 --no-cold --sample-bytes 2000000"


@dataclass(frozen=True)
class Block:
    """A block, the line at which its code begins, and its language: python, yaml, or "" for commands.

    ``in_peers``: it is of another library, and runs in the environment that has it.
    """

    language: str
    code: str
    line: int
    in_peers: bool = False


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            found["language"],
            found["code"],
            text[: found.start("code")].count("\n") + 1,
            text[: found.start()].endswith(f"{_IN_PEERS}\n"),
        )
        for found in _FENCE.finditer(text)
        if not found["language"].startswith("{")  # a directive of the site
    ]


class Reader:
    """Goes through a page in a folder, with what was done before it in that page.

    Args:
        before: by a piece of a block's code, what makes the names that it takes as given.
    """

    def __init__(self, page: Path, folder: Path, before: Mapping[str, Callable[[dict[str, Any]], None]]) -> None:
        self.page = page
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}
        self._before = before

    def read(self) -> int:
        """Run every block. Returns how many there were."""
        blocks = blocks_of(self.page)
        for block in blocks:
            try:
                self._run(block)
            except Exception as e:
                e.add_note(f"{self.page.name}:{block.line}, run in {self.folder}")
                raise
        return len(blocks)

    def _run(self, block: Block) -> None:
        for piece, make in self._before.items():
            if piece in block.code:
                make(self.names)
        match block.language:
            case "python" if block.in_peers:
                run_in_peers(f"import os; os.chdir({str(self.folder)!r})\n{block.code}")
            case "python":
                code = "\n" * (block.line - 1) + block.code  # so that a traceback tells the line of the page
                exec(compile(code, self.page, "exec"), self.names)
            case "yaml":
                check_settings(block.code)
            case "" | "sh":
                for line in block.code.replace("\\\n", " ").splitlines():
                    self._command(line)
            case "toml":
                tomllib.loads(block.code)
            case "text":
                pass
            case other:
                raise ValueError(f"a block of {other!r}, which nothing here can run; python, yaml, sh or text can be")

    def _command(self, line: str) -> None:
        line = line.partition("  #")[0].strip()
        if not line or line.startswith(_NOT_RUN):
            return
        if line.startswith("tokenyard bench"):
            line = re.sub(r"--make \d+", "--make 1000000", _MORE.sub("", line)) + _LESS
        binaries = Path(sys.executable).parent
        env = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "-ec", line], cwd=self.folder, env=env, capture_output=True, text=True, timeout=240, check=False
        )
        if done.returncode:
            raise AssertionError(f"$ {line}\nexit status {done.returncode}\n{done.stdout}{done.stderr}")


def check_settings(code: str) -> None:
    """Check settings of a training run, of which a page may show a part."""
    shown = yaml.safe_load(code)
    whole: dict[str, Any] = {"data": {"path": "c"}, "order": {"global_batch_size": 64}}
    for section, settings in shown.items():
        whole[section] = {**whole.get(section, {}), **settings}
    if "sources" in whole["data"]:
        del whole["data"]["path"]
    if "token_budget" in whole["order"]:
        del whole["order"]["global_batch_size"]
        whole["data"].setdefault("sample", {"mode": "rows"})
    if "length_grouping" in whole["order"]:
        whole["data"].setdefault("sample", {"mode": "rows"})
    load_config(whole)


def lay_out(folder: Path, repository: Path) -> None:
    """Link into a folder what a reader's checkout has, and the environment with the official libraries."""
    for name in ("configs", "examples"):
        (folder / name).symlink_to(repository / name)
    for name in ("venv", ".venv-peers"):
        (folder / name).symlink_to(find_python().parents[1])
