"""How much memory something takes at its highest, in this process."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def forget_peak() -> None:
    """Begin to measure anew, where the system can."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory since then."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def within(mebibytes: int) -> Iterator[None]:
    """Fail when what is done inside takes more memory than that."""
    forget_peak()
    before = peak_bytes()
    yield
    used = peak_bytes() - before
    assert used <= mebibytes << 20, f"{used >> 20} MiB, at most {mebibytes} are fine"
