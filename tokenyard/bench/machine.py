"""What the figures were measured on. No name of a host or a user is in it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("tokenyard", "numpy", "pyarrow", "zstandard", "torch", "numba")


def describe_machine(folder: Path) -> dict[str, object]:
    """Processor, cores, memory in bytes, the file system that ``folder`` lies on, and versions."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "file_system": _file_system(folder),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _file_system(folder: Path) -> str | None:
    """The type of the file system, of the longest mount point that the folder lies under."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    found: dict[Path, str] = {}
    for line in lines:
        fields, _, described = line.partition(" - ")
        found[Path(fields.split()[4].replace("\\040", " "))] = described.split()[0]
    place = folder.resolve()
    return next((found[parent] for parent in (place, *place.parents) if parent in found), None)
