"""What a disk does, as `iostat -x` computes it from /proc/diskstats.

The fields are those of https://docs.kernel.org/admin-guide/iostats.html.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_SYS = Path("/sys/dev/block")
_DISKSTATS = Path("/proc/diskstats")
_SECTOR_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class DiskLoad:
    """A disk over some time, of all who use it.

    Attributes:
        name: of its device.
        read_mb_per_s: `rMB/s`, with a million bytes to the MB.
        reads_per_s: `r/s`.
        read_ms: `r_await`, what a read takes.
        queue: `aqu-sz`, requests under way.
        utilisation: `%util`, percent of the time in which there were some.
    """

    name: str
    read_mb_per_s: float
    reads_per_s: float
    read_ms: float
    queue: float
    utilisation: float


@dataclass(frozen=True, kw_only=True)
class DiskCounters:
    """What /proc/diskstats counts since the system began; times in ms."""

    reads: int
    read_sectors: int
    reading_ms: int
    busy_ms: int
    queued_ms: int


def device_of(path: Path | str, sys: Path = _SYS) -> str | None:
    """The whole disk that a path lies on, as /proc/diskstats names it; None where the file system has none.

    Overlays, network file systems and others have no disk of their own, or don't tell it.
    """
    try:
        number = os.stat(path).st_dev
        device = (sys / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    except OSError:
        return None
    # Partitions count no utilisation of their own that is worth anything: their disk's is asked for.
    return device.parent.name if (device / "partition").exists() else device.name


def disk_counters(name: str, diskstats: Path = _DISKSTATS) -> DiskCounters | None:
    """The counters of a disk; None where the system has none."""
    try:
        lines = diskstats.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if fields[2] == name:
            numbers = [int(field) for field in fields[3:14]]
            return DiskCounters(
                reads=numbers[0],
                read_sectors=numbers[2],
                reading_ms=numbers[3],
                busy_ms=numbers[9],
                queued_ms=numbers[10],
            )
    return None


def disk_load(name: str, before: DiskCounters, after: DiskCounters, seconds: float) -> DiskLoad:
    """What a disk did in the seconds between two readings."""
    reads = after.reads - before.reads
    return DiskLoad(
        name=name,
        read_mb_per_s=(after.read_sectors - before.read_sectors) * _SECTOR_BYTES / 1e6 / seconds,
        reads_per_s=reads / seconds,
        read_ms=(after.reading_ms - before.reading_ms) / reads if reads else 0.0,
        queue=(after.queued_ms - before.queued_ms) / 1e3 / seconds,
        utilisation=min(100.0, (after.busy_ms - before.busy_ms) / 10 / seconds),
    )
