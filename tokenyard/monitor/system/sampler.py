"""What the machine did between two moments: differences of its counters, and what can only be sampled."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tokenyard.monitor.system import counters
from tokenyard.monitor.system.disk import DiskCounters, device_of, disk_counters, disk_load
from tokenyard.monitor.system.gpu import gpu_utilisation
from tokenyard.monitor.system.load import System

_NAP_SECONDS = 0.002


@dataclass(frozen=True, kw_only=True)
class _Reading:
    at: float
    disks: dict[str, DiskCounters]
    read_bytes: int | None
    major_faults: int | None
    received_bytes: int | None
    sent_bytes: int | None
    idle_ticks: int | None
    cpu_pressure_us: int | None
    io_pressure_us: int | None
    throttled_us: int | None


class Sampler:
    """Looks at the machine now and then, all in one thread of its own.

    Args:
        paths: of the corpora, whose disks are looked at; URLs have none.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        devices = {path: device_of(path) for path in paths}
        self._disks = sorted({name for name in devices.values() if name is not None})
        self._disk_unknown = "; ".join(
            f"{path}: its file system tells no disk" for path, name in devices.items() if name is None
        )
        self._queued: dict[tuple[int, int], int] = {}
        self._queued_ns: int | None = None
        self._begin()

    def tick(self, makers: set[tuple[int, int]], device: int | None) -> None:
        """Sample what has no counter: the interpreter's lock, the GPU, and queues of threads that may end soon.

        Args:
            makers: threads that make batches, by process and the system's number of the thread; those that have ended
                are taken out.
            device: the number of this process's CUDA device.
        """
        self._late.append(_late_seconds())
        gpu = gpu_utilisation(device)
        if isinstance(gpu, float):
            self._gpu.append(gpu)
        else:
            self._gpu_unknown = gpu
        for maker in makers.copy():
            queued = counters.queued_ns(*maker)
            if queued is None:
                makers.discard(maker)
                self._queued.pop(maker, None)
                continue
            self._queued_ns = (self._queued_ns or 0) + queued - self._queued.get(maker, 0)
            self._queued[maker] = queued

    def window(self) -> tuple[System, int | None, float | str]:
        """Return what was since the last call: the machine, ns that makers of batches queued for a core, the GPU."""
        before, after = self._before, self._read()
        seconds = max(1e-9, after.at - before.at)
        loads = [
            disk_load(name, before.disks[name], after.disks[name], seconds)
            for name in self._disks
            if name in before.disks and name in after.disks
        ]
        cores, ticks = counters.own_cores(), _difference(before.idle_ticks, after.idle_ticks)
        system = System(
            disk=max(loads, key=lambda load: load.utilisation, default=None),
            disk_unknown=self._disk_unknown,
            process_read_mb_per_s=_rate(before.read_bytes, after.read_bytes, 1e6 * seconds),
            major_faults_per_s=_rate(before.major_faults, after.major_faults, seconds),
            received_mb_per_s=_rate(before.received_bytes, after.received_bytes, 1e6 * seconds),
            sent_mb_per_s=_rate(before.sent_bytes, after.sent_bytes, 1e6 * seconds),
            cores=len(cores),
            idle_cores=None if ticks is None else ticks / os.sysconf("SC_CLK_TCK") / seconds,
            cpu_pressure=_rate(before.cpu_pressure_us, after.cpu_pressure_us, 1e6 * seconds),
            io_pressure=_rate(before.io_pressure_us, after.io_pressure_us, 1e6 * seconds),
            throttled=_rate(before.throttled_us, after.throttled_us, 1e6 * seconds),
            interpreter_late_ms=1e3 * sum(self._late) / max(1, len(self._late)),
        )
        gpu = sum(self._gpu) / len(self._gpu) if self._gpu else self._gpu_unknown
        queued = self._queued_ns
        self._begin()
        return system, queued, gpu

    def _begin(self) -> None:
        self._late: list[float] = []
        self._gpu: list[float] = []
        self._gpu_unknown = "it was not asked yet"
        self._queued_ns = None
        self._before = self._read()

    def _read(self) -> _Reading:
        own = os.getpid()
        processes = {own, *(process for process, _ in self._queued)}
        received, sent = counters.network_bytes()
        return _Reading(
            at=time.perf_counter(),
            disks={name: found for name in self._disks if (found := disk_counters(name)) is not None},
            read_bytes=_sum(counters.read_bytes(process) for process in processes),
            major_faults=_sum(counters.major_faults(process) for process in processes),
            received_bytes=received,
            sent_bytes=sent,
            idle_ticks=counters.idle_ticks(counters.own_cores()),
            cpu_pressure_us=counters.pressure_us("cpu"),
            io_pressure_us=counters.pressure_us("io"),
            throttled_us=counters.throttled_us(),
        )


def _late_seconds() -> float:
    """How late a thread goes on that slept, less what it queued for a core: what it waited for Python's lock."""
    own = os.getpid(), threading.get_native_id()
    queued, began = counters.queued_ns(*own) or 0, time.perf_counter()
    time.sleep(_NAP_SECONDS)
    late = time.perf_counter() - began - _NAP_SECONDS
    return max(0.0, late - ((counters.queued_ns(*own) or 0) - queued) / 1e9)


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def _rate(before: int | None, after: int | None, per: float) -> float | None:
    found = _difference(before, after)
    return None if found is None else found / per


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
