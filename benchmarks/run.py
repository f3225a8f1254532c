"""All benchmarks, one after another. Each prints ratios to peers that do the same work in the same process.

make bench                       # or: make bench ARGS=--quick
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import gather, loader

_QUICK = {
    gather: ["--rows", "2048", "--repeats", "2"],
    loader: ["--samples", "2048", "--repeats", "2"],
}


def main(arguments: list[str] | None = None) -> None:
    """Run each benchmark with its own defaults, or small."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that all works")
    quick = parser.parse_args(arguments).quick
    for benchmark, small in _QUICK.items():
        print(f"\n{(benchmark.__doc__ or '').splitlines()[0]}\n")
        benchmark.main(small if quick else [])


if __name__ == "__main__":
    main()
