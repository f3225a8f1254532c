"""All benchmarks, one after another, and one table of what they measured beside what it is compared with.

Each module of this folder with ``main(arguments)`` is a benchmark (see `results`), and runs in a process of its own, so
that none finds the allocator, the threads or the caches of another::

    make bench                       # or: make bench ARGS=--quick
    python benchmarks/run.py --only gather loader --json
"""

from __future__ import annotations

import ast
import importlib
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import peers, results

_FOLDER = Path(__file__).resolve().parent


def benchmarks(folder: Path = _FOLDER) -> dict[str, str]:
    """The first line of each benchmark's docstring, by its module's name; none of them is imported.

    Raises ValueError for a benchmark without a docstring.
    """
    found = {}
    for path in sorted(folder.glob("*.py")):
        module = ast.parse(path.read_text())
        if path.stem == "run" or not any(map(_is_main, module.body)):
            continue
        doc = ast.get_docstring(module)
        if not doc:
            raise ValueError(f"{path}: a benchmark needs a docstring, whose first line is its title")
        found[path.stem] = doc.splitlines()[0]
    return found


def run(name: str, *, quick: bool) -> list[results.Result]:
    """Run one here, with its own defaults or small; it prints what it measured."""
    module = importlib.import_module(f"benchmarks.{name}")
    found: list[results.Result] | None = module.main(list(getattr(module, "QUICK", [])) if quick else [])
    return found or []


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Run those that are asked for, each in a new process, and print the table."""
    known = benchmarks()
    parser = results.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that all works")
    parser.add_argument("--only", nargs="+", choices=list(known), default=list(known))
    args = parser.parse_args(arguments)
    # What benchmarks print on their way is no part of the JSON.
    way = sys.stderr if args.json else sys.stdout
    if peers.find_python() is None:
        print("No peers' environment: nothing is compared with other libraries (make setup makes it).", file=way)
    found: list[results.Result] = []
    for name in args.only:
        print(f"\n{known[name]}\n", file=way, flush=True)
        started = time.perf_counter()
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            found += process.submit(_run_quietly if args.json else run, name, quick=args.quick).result()
        print(f"\n{name}: {time.perf_counter() - started:.0f} s", file=way, flush=True)
    if not args.json:
        print("\nAll of it\n")
    return results.report(found, as_json=args.json)


def _is_main(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.FunctionDef) and node.name == "main" and [a.arg for a in node.args.args] == ["arguments"]
    )


def _run_quietly(name: str, *, quick: bool) -> list[results.Result]:
    sys.stdout = sys.stderr
    return run(name, quick=quick)


if __name__ == "__main__":
    main()
