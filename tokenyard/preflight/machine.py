"""What this machine, or the container that this process is in, allows; None where the system doesn't tell.

See https://docs.kernel.org/admin-guide/cgroup-v2.html and https://docs.kernel.org/admin-guide/sysctl/vm.html.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def memory_bytes() -> int | None:
    """Memory that processes may have here: that of the machine, or of a container with less."""
    limits = [*_cgroup_limits(), _in_meminfo("MemTotal")]
    return min((limit for limit in limits if limit is not None), default=None)


def available_bytes() -> int | None:
    """Memory that is not in use now, pages of files that can be dropped counted as free."""
    return _in_meminfo("MemAvailable")


def most_maps() -> int | None:
    """Memory maps that a process may have."""
    text = _text(_PROC / "sys" / "vm" / "max_map_count").strip()
    return int(text) if text.isdigit() else None


def open_files() -> tuple[int, int]:
    """Files that a process may have open: the limit, and the one up to which anybody may raise it."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _cgroup_limits() -> list[int | None]:
    own = next((line[3:] for line in _text(_PROC / "self" / "cgroup").splitlines() if line.startswith("0::")), "/")
    folder = _CGROUPS / own.lstrip("/")
    folders = [folder, *(parent for parent in folder.parents if parent.is_relative_to(_CGROUPS))]
    texts = [_text(place / "memory.max").strip() for place in folders]
    return [int(text) for text in texts if text.isdigit()]


def _in_meminfo(name: str) -> int | None:
    for line in _text(_PROC / "meminfo").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if name == "MemTotal" else None
    except (ValueError, OSError):
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
