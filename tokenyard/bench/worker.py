"""One measurement in a process of its own: ``python -m tokenyard.bench.worker JOB``, JOB as JSON.

The last line that it prints is JSON: what was measured, or ``{"error": message}`` where tokenyard refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenyard.bench.disk import measure_disk
from tokenyard.bench.reading import ReadJob, measure_reading
from tokenyard.bench.writing import WriteJob, measure_writing
from tokenyard.errors import TokenyardError

_JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "write": lambda told: measure_writing(WriteJob(**told)),
    "read": lambda told: measure_reading(ReadJob(**told)),
    "disk": lambda told: measure_disk(Path(told["path"])),
}


def main(arguments: list[str]) -> None:
    """Do the job that the only argument describes."""
    told = json.loads(arguments[0])
    try:
        found = _JOBS[told.pop("job")](told)
    except TokenyardError as e:
        found = {"error": f"{e.__class__.__name__}: {e}"}
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
