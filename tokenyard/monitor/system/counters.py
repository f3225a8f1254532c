"""What Linux counts of processes, cores, pressure and the network; None where it doesn't, as on macOS.

See https://docs.kernel.org/filesystems/proc.html, sched-stats.html, accounting/psi.html and admin-guide/cgroup-v2.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def queued_ns(process: int, thread: int, proc: Path = PROC) -> int | None:
    """How long a thread was ready to run and had no core, since it began."""
    text = _text(proc / str(process) / "task" / str(thread) / "schedstat")
    return int(text.split()[1]) if text else None


def major_faults(process: int, proc: Path = PROC) -> int | None:
    """Pages that a process waited for until they were read from a disk."""
    text = _text(proc / str(process) / "stat")
    # The program's name, in parentheses, may hold anything.
    return int(text.rpartition(")")[2].split()[9]) if text else None


def read_bytes(process: int, proc: Path = PROC) -> int | None:
    """Bytes that a process had fetched from disks; what was in memory doesn't count."""
    for line in _text(proc / str(process) / "io").splitlines():
        name, _, value = line.partition(":")
        if name == "read_bytes":
            return int(value)
    return None


def idle_ticks(cores: Iterable[int], proc: Path = PROC) -> int | None:
    """Ticks, of `SC_CLK_TCK` a second, in which some cores had nothing to run."""
    names = {f"cpu{core}" for core in cores}
    lines = [line.split() for line in _text(proc / "stat").splitlines()]
    found = [int(fields[4]) + int(fields[5]) for fields in lines if fields and fields[0] in names]
    return sum(found) if found else None


def own_cores() -> set[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def pressure_us(resource: str, proc: Path = PROC) -> int | None:
    """Microseconds in which some process waited for `cpu` or `io`, since the system began."""
    for line in _text(proc / "pressure" / resource).splitlines():
        if line.startswith("some"):
            return int(line.rpartition("total=")[2])
    return None


def network_bytes(proc: Path = PROC) -> tuple[int, int] | tuple[None, None]:
    """Bytes received and sent by all interfaces but the loopback."""
    lines = [line.partition(":") for line in _text(proc / "net" / "dev").splitlines()[2:]]
    counts = [counted.split() for name, _, counted in lines if name.strip() != "lo"]
    return (sum(int(c[0]) for c in counts), sum(int(c[8]) for c in counts)) if counts else (None, None)


def throttled_us(proc: Path = PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Microseconds in which this process's container was stopped at its CPU limit; cgroup version 2."""
    own = next((line[3:] for line in _text(proc / "self" / "cgroup").splitlines() if line.startswith("0::")), "/")
    for folder in (cgroups / own.lstrip("/"), cgroups):
        for line in _text(folder / "cpu.stat").splitlines():
            name, _, value = line.partition(" ")
            if name == "throttled_usec":
                return int(value)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
