"""Reads mutants of a corpus, each within bounds of time and memory: ``python -m tests.fuzz.mutants NAME:FIRST:COUNT``.

Mutant 17 of ``mds-zstd`` is the same everywhere, so what failed once can be looked at again: ``python -m
tests.fuzz.mutants mds-zstd:17:1 --keep FOLDER`` leaves its files in a folder that is not there yet.
"""

import argparse
import faulthandler
import os
import resource
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.mutations import mutate
from tests.fuzz.reading import Original, files_of, read_mutant, write_mutant
from tests.fuzz.seeds import SEEDS
from tests.fuzz.texts import TEXTS, read_texts
from tests.hostile.memory import forget_peak, peak_bytes

#: What one mutant may take; the address space comes on top of what the process has.
SECONDS = 60
_MAX_ADDRESSES = 4 << 30
_MAX_BYTES = 200 << 20


def run(name: str, first: int, count: int, keep: Path | None) -> Counter[str]:
    """Read mutants first .. first + count of a corpus, and tell of those that were not as they should be."""
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        intact = Path(home) / "intact"
        {**SEEDS, **TEXTS}[name](intact)
        files = files_of(intact)
        read = _reader(name, intact)
        read(intact, 0)  # everything is imported and compiled
        folder = keep or Path(home) / "mutant"
        for number in range(first, first + count):
            _tell("mutant", name, number)
            mutant, done = mutate(files, number, files)
            folder.mkdir()
            write_mutant(folder, mutant, number)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            forget_peak()
            before = peak_bytes()
            try:
                outcome = read(folder, number)
                if (used := peak_bytes() - before) > _MAX_BYTES:
                    raise MemoryError(f"{used >> 20} MiB for a few kilobytes; {outcome}")
            except Exception:  # noqa: BLE001  # whatever it is, it is told
                outcomes["failed"] += 1
                _tell("failed", "|", "; ".join(done))
                traceback.print_exc(file=sys.stdout)
            else:
                outcomes[outcome if outcome in ("read", "verified") else "refused"] += 1
                if keep is not None:
                    _tell("; ".join(done), "|", outcome)
            faulthandler.cancel_dump_traceback_later()
            if keep is None:
                shutil.rmtree(folder)
    _tell("counts", name, *(f"{what}={n}" for what, n in sorted(outcomes.items())))
    return outcomes


def _reader(name: str, intact: Path) -> Callable[[Path, int], str]:
    if name in TEXTS:
        return lambda folder, number: read_texts(folder)
    original = Original.read(intact)
    return lambda folder, number: read_mutant(folder, number, original)


def _tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def _limit_addresses() -> None:
    if sys.platform == "linux":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _MAX_ADDRESSES, resource.RLIM_INFINITY))


def main() -> int:
    """Read all that were asked for. Returns 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutants", nargs="+", help="NAME:FIRST:COUNT; names are in tests/fuzz/seeds.py and texts.py")
    parser.add_argument("--keep", type=Path, help="leave the files of the one mutant here")
    given = parser.parse_args()
    os.environ["TOKENYARD_CACHE"] = os.devnull  # can't be written to, so nothing is remembered
    _limit_addresses()
    failed = 0
    for job in given.mutants:
        name, first, count = job.rsplit(":", 2)
        failed += run(name, int(first), int(count), given.keep)["failed"]
    _tell("done")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
