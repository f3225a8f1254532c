"""Runs of many mutants in processes of their own, so that one that ends its process is found, and the rest go on."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.mutants import SECONDS

REPOSITORY = Path(__file__).parent.parent.parent
_PART = re.compile(r"^(?=mutant |counts |done)", re.MULTILINE)
_MUTANT = re.compile(r"mutant (\S+) (\d+)\n")
_COUNT = re.compile(r"(\w+)=(\d+)")
#: What a process takes to begin, on a busy machine.
_BEGIN_SECONDS = 300


@dataclass
class Campaign:
    """How many mutants were read, verified and refused, and what failed, with the command that repeats it."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def run(self, names: Sequence[str], first: int, count: int) -> None:
        """Read ``count`` mutants of each of some corpora, from number ``first`` on."""
        jobs = [(name, first, count) for name in names if count]
        while jobs:
            done = subprocess.run(
                [sys.executable, "-m", "tests.fuzz.mutants", *(f"{n}:{a}:{c}" for n, a, c in jobs)],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "error"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_BEGIN_SECONDS + SECONDS * sum(c for _, _, c in jobs),
                check=False,
            )
            if (last := self._note(done.stdout)) is None:
                return
            if not last:
                self.failures.append(f"no mutant was read:\n{done.stdout[-3000:]}")
                return
            name, number = last
            self.failures.append(f"{_repeat(name, number)}\nended its process with {done.returncode}")
            jobs = jobs[[n for n, _, _ in jobs].index(name) :]
            jobs[0] = (name, number + 1, first + count - number - 1)
            jobs = [job for job in jobs if job[2]]

    def _note(self, output: str) -> tuple[str, int] | tuple[()] | None:
        """Count what a process told; returns the last mutant that it began, None where it came to its end."""
        last: tuple[str, int] | tuple[()] = ()
        for part in _PART.split(output):
            if part.startswith("done"):
                return None
            if part.startswith("counts"):
                self.counts.update({what: int(number) for what, number in _COUNT.findall(part)})
            if mutant := _MUTANT.match(part):
                last = mutant[1], int(mutant[2])
                if "\nfailed |" in part or "Traceback" in part or "Fatal" in part:
                    self.failures.append(f"{_repeat(*last)}\n{part}")
        return last


def _repeat(name: str, number: int) -> str:
    return f"python -m tests.fuzz.mutants {name}:{number}:1 --keep FOLDER"
