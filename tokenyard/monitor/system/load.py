"""What the machine did in a window."""

from __future__ import annotations

from dataclasses import dataclass

from tokenyard.monitor.system.disk import DiskLoad


@dataclass(frozen=True, kw_only=True)
class System:
    """What the machine did; None where the system doesn't tell.

    Attributes:
        disk: the disk that the corpus lies on, as `iostat -x` shows it; of several, the one most in use.
        disk_unknown: why there is none.
        process_read_mb_per_s: what this process had read from disks, by maps or calls.
        major_faults_per_s: pages of maps that were waited for.
        received_mb_per_s: by all network interfaces but the loopback.
        sent_mb_per_s: likewise.
        cores: that this process may run on.
        idle_cores: of these, on average.
        cpu_pressure: share of time in which some process waited for a core (PSI).
        io_pressure: share of time in which some process waited for storage (PSI).
        throttled: share of time in which this container was stopped at its CPU limit.
        interpreter_late_ms: what a thread waits for Python's lock, on average.
    """

    disk: DiskLoad | None = None
    disk_unknown: str = ""
    process_read_mb_per_s: float | None = None
    major_faults_per_s: float | None = None
    received_mb_per_s: float | None = None
    sent_mb_per_s: float | None = None
    cores: int = 1
    idle_cores: float | None = None
    cpu_pressure: float | None = None
    io_pressure: float | None = None
    throttled: float | None = None
    interpreter_late_ms: float = 0.0
