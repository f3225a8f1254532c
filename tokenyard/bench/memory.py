"""The memory of this process that no file backs."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_bytes() -> int | None:
    """Resident bytes that are not pages of files: they can't be given back under pressure. None where not told."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    try:
        return sum(int(found[name].split()[0]) for name in ("RssAnon", "RssShmem")) << 10
    except (KeyError, ValueError, IndexError):
        return None
